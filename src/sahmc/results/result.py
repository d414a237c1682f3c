"""The result that ``sample`` returns: the record of a run, and methods to analyse it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, runtime_checkable

import jax
import numpy as np
from numpy.typing import ArrayLike

from sahmc._support.registry import public
from sahmc._support.tables import Table
from sahmc._support.types import Position, PositionFn
from sahmc._support.validate import require, require_count, require_flag, require_mapping, require_seed
from sahmc.models.predictor import Predictor
from sahmc.results import evidence, expectations, files, search
from sahmc.results.datatree import add_relabelled, to_datatree, to_inferencedata
from sahmc.results.mode_table import ModeTable, mode_table
from sahmc.results.predictions import Wanted, add_predictions
from sahmc.results.record_view import RecordView
from sahmc.results.records import DrawRecord, ModeAssignment, Rejuvenated, RunRecord
from sahmc.results.relabelling import known_symmetries, relabelled
from sahmc.results.summary import Summary, as_text, overview, summarise
from sahmc.results.variables import Dims, VarNames, with_coords
from sahmc.symmetry.maps import Symmetry
from sahmc.tilt.importance import Expectation, resample_rows

if TYPE_CHECKING:
    import arviz
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@runtime_checkable
class LiveRun(Protocol):
    """The run that made a result, which can continue while the process lives."""

    @property
    def has_positions(self) -> bool:
        """Whether whole positions were kept, rather than a function of them."""

    @property
    def predictor(self) -> Predictor | None:
        """The object that computes log likelihoods of observations and simulates data; None if the model has none."""

    def assign_modes(self, draws: DrawRecord) -> ModeAssignment:
        """Return the modes in the draws, for a run that did not search for any."""

    def extend(self, draws: int, progressbar: bool) -> Result:
        """Return the result of the same run with ``draws`` more draws per chain."""

    def rejuvenate(self, index: tuple[np.ndarray, ...], moves: int, seed: int) -> Rejuvenated:
        """Return some draws after ``moves`` plain moves of the kernel each.

        ``index`` holds the chain and the number of each draw. ``seed`` seeds the moves.
        """


TREE_GROUPS = ("posterior", "sample_stats", "observed_data", "constant_data")
"""The groups of an ArviZ tree that users look for as attributes of a result."""


@dataclass(frozen=True, repr=False)
class Result(RecordView):
    """The draws of the tilted density, and the weights that recover the posterior.

    The first axes of arrays are (chain, draw). ``record`` holds all data, immutable and grouped; the attributes below
    are parts of it. ``live`` is the run that made the draws; None if the result was loaded or came from another
    process.
    """

    record: RunRecord
    live: LiveRun | None = None

    def __reduce__(self) -> tuple[type[Result], tuple[RunRecord]]:
        """Pickle only the record."""
        return Result, (self.record,)

    def __copy__(self) -> Result:
        """Return a result with the same record, which is immutable, and the same run."""
        return Result(self.record, self.live)

    def __deepcopy__(self, memo: object) -> Result:
        """Return the same as ``__copy__``."""
        return copy(self)

    def __getattr__(self, name: str) -> Any:
        """Raise ``AttributeError``, with a hint for users of ArviZ or PyMC."""
        if hasattr(type(self), name):  # a property that failed: show its own error
            return object.__getattribute__(self, name)
        hint = f"; to_datatree() has it: result.to_datatree().{name}" if name in TREE_GROUPS else ""
        raise AttributeError(f"a Result has no attribute {name!r}{hint}")

    __iter__ = None
    __contains__ = None

    def __getitem__(self, name: object) -> NoReturn:
        """Raise ``TypeError``, with a hint: a result is not a dict."""
        raise TypeError(
            f"a Result is no dict; got [{name!r}]. To fix it, write result.values()[{name!r}] for the draws of the "
            f'tilted density, or result.to_datatree()["posterior"][{name!r}] for draws of equal weight.'
        )

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        """Return an array with this result as its one object; raise ``TypeError``, with a hint, if ArviZ is calling."""
        from sahmc.results.old_arviz import as_object

        return as_object(self)

    def extend(self, draws: int, *, progressbar: bool = True) -> Result:
        """Return the result of the same run with ``draws`` more draws per chain; this result does not change.

        The draws are bit for bit what a longer run would have given. The exception is a run in which the draws show a
        mode that the warm-up did not know: a longer run would start again with that mode. A run with a checkpoint
        folder continues there, as with ``sahmc.resume``.
        """
        require_count(draws, "draws")
        require_flag(progressbar, "progressbar")
        longer = self._running("extend").extend(draws, progressbar)
        return Result(dataclasses.replace(longer.record, labels=self.record.labels), longer.live)

    def expectation(self, fn: PositionFn | None = None) -> Expectation:
        """Return the posterior mean of ``fn`` and its Monte Carlo standard error.

        ``fn`` is a function of one position, or of the named variables of a model, written with ``jax.numpy``. None
        means the position itself.
        """
        return expectations.expectation(self.record, fn)

    def ess(self, fn: PositionFn | None = None) -> Position:
        """Return the effective sample size of ``expectation(fn)``: posterior variance over squared standard error.

        It accounts for both autocorrelation and weights. It has the structure that ``fn`` returns.
        """
        return expectations.effective_sample_size(self.record, fn)

    def values(self, fn: PositionFn | None = None) -> Position:
        """Return ``fn`` of every draw as arrays (chain, draw, ...), or the draws themselves if None."""
        return expectations.values(self.record, fn)

    def resample(self, n: int | None = None, seed: int = 0) -> Position:
        """Return ``n`` equal-weight draws of the posterior, chain by chain in time order.

        By default, ``n`` is the number of draws that were made. ``seed`` seeds the single random number this uses.
        """
        n = self.log_weight.size if n is None else n
        chosen = self.resample_index(n, seed)
        return jax.tree.map(lambda x: np.asarray(x[chosen]), self.draws)

    def resample_index(self, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the chain and the draw of each of ``n`` equal-weight draws, as two arrays.

        ``seed`` seeds the single random number this uses.
        """
        require_count(n, "n")
        require_seed(seed, "seed")
        return expectations.resample_index(self.record, n, seed)

    def membership(self, every: tuple[int, int] = (1, 1)) -> np.ndarray:
        """Return the membership of every draw in every region under the frozen theta, (chain, draw, region).

        ``every`` is (i, j) to use every i-th chain and every j-th draw.
        """
        return evidence.membership(self.record, every)

    def log_omega(self, log_total: float = 0.0) -> np.ndarray:
        """Return log omega_i of every region; for a tempered tilt log Z(beta_i), where level 0 is the posterior.

        Theta determines these only up to a constant. ``log_total`` is the known log of the total: the default, 0, makes
        omega posterior probabilities, and Z relative to the posterior. Regions never visited have -inf. If theta was
        frozen, the observed visiting frequencies are used, otherwise pi_i + nu of the paper.
        """
        return evidence.log_omega(self.record, log_total)

    def log_evidence(self, method: str = "theta") -> Expectation:
        """Return the log marginal likelihood, or the log integral of a raw log density, and its standard error.

        If the prior is separate, this is the integral of prior times likelihood divided by that of the prior. Otherwise
        it is the integral of exp(log density) over all positions, with whatever constants the log density has.

        ``method`` "theta" uses theta and the visits to both ends of the ladder. ``method`` "bridges" uses the energies
        at each level (Bennett's acceptance ratio between neighbours). Both results are nan if the run does not support
        them; a finding of severity "error" then says why.

        This needs a tempered tilt with its last level at beta = 0, the prior or a reference, which is the default. It
        also needs a theta that was shared by all chains and frozen while sampling.
        """
        return evidence.log_evidence(self.record, method)

    def rejections(self) -> np.ndarray:
        """Return the rejection probability of a swap between chains on neighbouring levels, for each pair of levels.

        The sum is about the barrier Lambda between posterior and top. A value near 1 is a gap that chains rarely cross.
        This needs a tempered tilt.
        """
        return evidence.rejections(self.record)

    def search_power(self, mass: float = 0.1, width: float = 1 / 3, place: str | None = None) -> float:
        """Return the probability that the run would have found a mode of this mass and width, had there been one.

        ``mass`` is its share of the posterior, in (0, 1). ``width`` is its width relative to the nearest known mode,
        which has the same shape. Above 1 the result is nan, because wider modes were not tried.

        ``place`` is "inside" the known modes, "near" them (up to ten widths beyond the rim of one) or "far" (10 to 100
        widths). The hypothetical mode lies at a random position there. By default the result is the minimum over these
        places; "far" counts only if known modes are as far apart.

        This needs a run that searched for modes, which is the default.
        """
        return search.search_power(self.record, mass, width, place)

    def modes(self, var_names: VarNames = None) -> ModeTable:
        """Return the modes of the posterior, heaviest first; their number need not be known.

        The table shows the mass of each mode, the number of chains that saw it, and its mean, standard deviation and
        lowest point. It prints the quantities in which modes differ most; ``var_names`` restricts the choice of
        variables, and ``to_dataframe()`` has all. The label of a mode is that of its draws in ``sample_stats.mode``.

        Modes of negligible mass are left out. Symmetric copies count as one mode, and the table shows their number. If
        the run did not search for modes, this call does.
        """
        record = self._with_modes("modes()")
        assert record.modes is not None
        return mode_table(record, record.modes, var_names)

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """The symmetries of the variables, found by the run or given by you."""
        return tuple(known_symmetries(self.record))

    def relabel(self, symmetries: Sequence[Symmetry] | None = None) -> Position:
        """Return the draws without label switching, in the structure of ``draws``: all lie in the same copy of a mode.

        ``symmetries`` is a list of ``Permute`` and ``Flip``; None, the default, means the known symmetries of the run.
        For example, component 1 of a mixture is then the same component in all draws. Weights do not change.
        """
        return relabelled(self.record, symmetries)

    def summary(
        self,
        fn: PositionFn | None = None,
        prob: float = 0.94,
        *,
        var_names: VarNames = None,
        mode: int | None = None,
    ) -> Summary:
        """Return a table of all quantities, and the findings: print it, or call ``to_dataframe()``.

        Its columns are the posterior mean, the standard deviation, the highest-density interval of probability
        ``prob``, the Monte Carlo standard error, the effective sample size, and R-hat. R-hat is ArviZ's, computed from
        equal-weight draws in rows that each come from one chain. The quantities are the coordinates of the position,
        relabelled if modes have copies; or the values that ``fn`` returns.

        ``var_names`` is a list of variables as in ArviZ: names to include, or names after "~" to leave out. ``mode`` is
        the label of a mode, as ``modes()`` prints it; the table then describes the posterior within that mode.
        """
        return summarise(self._with_modes("mode=", mode), fn, prob, var_names, mode)

    def assign_coords(self, coords: Mapping[str, ArrayLike], dims: Dims | None = None) -> Result:
        """Return this result with names for its axes, used by tables, plots and ``to_datatree``.

        ``coords`` are the names along each dimension, such as ``{"county": ["Aitkin", "Anoka"]}``. ``dims`` are the
        dimensions of each variable, such as ``{"a": ["county"]}``. You need not repeat those of the model, such as the
        plates of NumPyro. The text of findings does not change.
        """
        require_mapping(coords, "coords", '{"county": ["Aitkin", "Anoka"]}')
        require_mapping(dims, "dims", '{"a": ["county"]}')
        labels = with_coords(self.record, coords or {}, dims or {})
        return Result(dataclasses.replace(self.record, labels=labels), self.live)

    def to_datatree(
        self,
        *,
        coords: Mapping[str, ArrayLike] | None = None,
        dims: Dims | None = None,
        rejuvenate: int = 0,
        log_likelihood: bool = False,
        posterior_predictive: bool = False,
        prior: bool = False,
        seed: int = 0,
    ) -> xr.DataTree:
        """Return an ``xarray.DataTree`` in ArviZ's schema.

        ``posterior``, ``sample_stats``
            The same number of draws as were made, resampled to equal weight, in time order; heavy draws repeat. Each
            row comes from one chain, ``sample_stats.source``. A chain fills rows in proportion to its share of the
            weight. With ``rejuvenate=k``, each draw is then moved by k plain transitions of the kernel, so that almost
            no draws repeat. ``seed`` seeds everything random here.
        ``weighted_posterior``, ``weighted_sample_stats``
            The weighted draws of the tilted density, with ``log_weight``, ``region`` and ``energy``.
        ``relabelled_posterior``
            The draws of ``posterior`` after ``relabel``, if modes have copies.
        ``sahmc``
            Theta, its trace, and the visits, desired frequencies, and energies or inverse temperatures of each region.
        ``warmup_posterior``, ``warmup_sample_stats``
            The draws of the adaptation before any resampling, if they were saved.
        ``observed_data``, ``constant_data``
            The data, if the model has them.

        ``log_likelihood``
            With ``log_likelihood=True``, that of every observation under each draw of ``posterior``, for ``az.loo``.
        ``posterior_predictive``
            With ``posterior_predictive=True``, data simulated under each draw of ``posterior``.
        ``prior``, ``prior_predictive``
            With ``prior=True``, a thousand draws from the prior, and data simulated under each.

        The last three need a model of NumPyro, PyMC or Stan, and the result that ``sample`` returned. For a Stan
        program they are the generated quantities ``log_lik`` and ``y_rep``; it has no separate prior.

        ``coords`` and ``dims`` are ArviZ's, for variables named as in the draws. You need not repeat those of the
        model.
        """
        wanted = Wanted(log_likelihood, posterior_predictive, prior)
        asked = wanted.argument
        predictor = None if asked is None else wanted.require(self._alive(asked).predictor)
        require_count(rejuvenate, "rejuvenate", least=0)
        require_seed(seed, "seed")
        require_mapping(coords, "coords", '{"axis": ["east", "north"]}')
        require_mapping(dims, "dims", '{"x": ["axis"]}')
        index = resample_rows(self.weight, seed)
        flat = tuple(part.ravel() for part in index)
        moved = self._alive("rejuvenate").rejuvenate(flat, rejuvenate, seed) if rejuvenate else None
        tree = add_relabelled(to_datatree(self.record, index, moved, coords or {}, dims or {}), self.record)
        return tree if predictor is None else add_predictions(tree, predictor, wanted, self.record, index, moved, seed)

    def to_inferencedata(
        self,
        *,
        coords: Mapping[str, ArrayLike] | None = None,
        dims: Dims | None = None,
        rejuvenate: int = 0,
        log_likelihood: bool = False,
        posterior_predictive: bool = False,
        prior: bool = False,
        seed: int = 0,
    ) -> arviz.InferenceData:
        """Return the tree of ``to_datatree`` as an ``arviz.InferenceData``, for ArviZ before 1.0.

        The arguments are those of ``to_datatree``.
        """
        tree = self.to_datatree(
            coords=coords,
            dims=dims,
            rejuvenate=rejuvenate,
            log_likelihood=log_likelihood,
            posterior_predictive=posterior_predictive,
            prior=prior,
            seed=seed,
        )
        return to_inferencedata(tree)

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write a NetCDF file, or a Zarr store if ``path`` ends in ".zarr"; ArviZ and ``load`` can read both.

        An existing file is refused unless ``overwrite`` is true.
        """
        files.save(self.record, path, overwrite)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Result:
        """Return the result that ``save`` wrote: the same record, but without the model it cannot make new moves."""
        return cls(files.load(path))

    def plot_overview(self, *, var_names: VarNames = None, mode: int | None = None) -> Figure:
        """Plot six panels of the run in one figure; see ``sahmc.plot_overview``."""
        return public("plot_overview")(self, var_names=var_names, mode=mode)

    def plot_pair(
        self, ax: Axes | None = None, *, num: int | None = None, var_names: VarNames = None, mode: int | None = None
    ) -> Any:
        """Plot posterior draws of pairs of quantities; see ``sahmc.plot_pair``."""
        return public("plot_pair")(self, ax, num=num, var_names=var_names, mode=mode)

    def plot_marginal(self, ax: Axes | None = None, *, var_names: VarNames = None, mode: int | None = None) -> Any:
        """Plot the density of single quantities; see ``sahmc.plot_marginal``."""
        return public("plot_marginal")(self, ax, var_names=var_names, mode=mode)

    def plot_energy(self, ax: Axes | None = None, *, chains: int = 4, mode: int | None = None) -> Axes:
        """Plot the energies of some chains over time; see ``sahmc.plot_energy``."""
        return public("plot_energy")(self, ax, chains=chains, mode=mode)

    def plot_visits(self, ax: Axes | None = None) -> Axes:
        """Plot the visits to each level; see ``sahmc.plot_visits``."""
        return public("plot_visits")(self, ax)

    def plot_theta(self, ax: Axes | None = None) -> Axes:
        """Plot the path of theta; see ``sahmc.plot_theta``."""
        return public("plot_theta")(self, ax)

    def plot_round_trips(self, ax: Axes | None = None, *, chains: int = 3) -> Axes:
        """Plot the levels of some chains over time; see ``sahmc.plot_round_trips``."""
        return public("plot_round_trips")(self, ax, chains=chains)

    def plot_ladder(self, ax: Axes | None = None) -> Axes:
        """Plot the location of the barrier on the ladder; see ``sahmc.plot_ladder``."""
        return public("plot_ladder")(self, ax)

    def _with_modes(self, what: str, mode: int | None = 0) -> RunRecord:
        """Return the record with its modes, searching for them now if the run did not; unchanged if ``mode`` is None.

        ``what`` names the caller in the error raised if a search is no longer possible.
        """
        if mode is None or self.record.modes is not None:
            return self.record
        found = self._alive(f"{what} of a run that did not look for modes").assign_modes(self.record.draws)
        return dataclasses.replace(self.record, modes=found)

    def _running(self, what: str) -> LiveRun:
        """Return the run that made the draws, or raise ``ValueError``, which says that ``what`` needs it."""
        require(
            self.live is not None,
            f"{what} needs the run that made the draws",
            "a result that was loaded, or came from another process, which has none any more",
            "call it on the result that sample returned; or sample with checkpoint= and call it on what sahmc.resume "
            "returns",
        )
        assert self.live is not None
        return self.live

    def _alive(self, what: str) -> LiveRun:
        """Return the run that made the draws if it kept whole positions, or raise ``ValueError``; see ``_running``."""
        live = self._running(what)
        must = f"{what} needs whole positions"
        require(live.has_positions, must, "a result that was sampled with keep=", "sample without keep=")
        return live

    def __repr__(self) -> str:
        return as_text(overview(self.record))

    def _repr_html_(self) -> str:
        lines = overview(self.record)
        return "<b>sahmc.Result</b>" + Table("", [""], list(lines), [[line] for line in lines.values()]).to_html()


def require_result(value: object) -> None:
    """Raise ``ValueError`` unless a value is the result of a run."""
    ok, what = isinstance(value, Result), f"a {type(value).__name__}"
    todo = "pass what sahmc.sample returned, or sahmc.Result.load(path)"
    require(ok, "result must be the result of a run", what, todo)
