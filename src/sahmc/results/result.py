"""The result that ``sample`` returns: the record of a run, and the questions one asks of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from sahmc._support.tables import Table
from sahmc._support.types import PositionFn
from sahmc._support.validate import require, require_count, require_flag, require_mapping, require_seed
from sahmc.models.predictor import Predictor
from sahmc.models.symmetry import Symmetry
from sahmc.results import evidence, expectations, files, ladder, search
from sahmc.results.coords import with_coords
from sahmc.results.datatree import add_relabelled, to_datatree, to_inferencedata
from sahmc.results.mode_table import ModeTable, mode_table
from sahmc.results.overview import as_text, overview
from sahmc.results.plot_methods import PlotMethods
from sahmc.results.predictions import Wanted, add_predictions
from sahmc.results.record_view import RecordView
from sahmc.results.records import DrawRecord, ModeAssignment, Rejuvenated, RunRecord
from sahmc.results.relabelling import known_symmetries, relabelled
from sahmc.results.summary import Summary, summarise
from sahmc.tilt.importance import Expectation, resample_rows


@runtime_checkable
class LiveRun(Protocol):
    """The run that made a result, of which it can still ask something while the process lives."""

    @property
    def has_positions(self) -> bool:
        """Whether whole positions were kept, rather than some function of them."""

    @property
    def predictor(self) -> Predictor | None:
        """The object that tells how likely each observation is, and simulates data; None if the model has none."""

    def assign_modes(self, draws: DrawRecord) -> ModeAssignment:
        """Return the modes in the draws, for a run that did not look for any."""

    def extend(self, draws: int, progressbar: bool) -> Any:
        """Return the result of the same run with ``draws`` more draws of each chain."""

    def rejuvenate(self, index: tuple[np.ndarray, ...], moves: int, seed: int) -> Rejuvenated:
        """Return some draws after ``moves`` plain moves of the kernel each.

        ``index`` holds the chain and the number of each draw, and ``seed`` is for the moves.
        """


TREE_GROUPS = ("posterior", "sample_stats", "observed_data", "constant_data")
"""The groups of a tree of ArviZ, which people look for here."""


@dataclass(frozen=True, repr=False)
class Result(RecordView, PlotMethods):
    """The draws of the tilted density, and the weights that give the posterior back. Arrays lead with (chain, draw).

    ``record`` holds all the data there is, immutable and grouped; the attributes below are parts of it. ``live`` is the
    run that made the draws, None in a result that was loaded or came from another process.
    """

    record: RunRecord
    live: LiveRun | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the record alone."""
        return Result, (self.record,)

    def __copy__(self) -> Result:
        """Return a result with the same record, which nothing can change, and the same run."""
        return Result(self.record, self.live)

    def __deepcopy__(self, memo: Any) -> Result:
        """Return what ``__copy__`` does."""
        return copy(self)

    def __getattr__(self, name: str) -> Any:
        """Raise ``AttributeError``, with a hint for those who come from ArviZ or PyMC."""
        if hasattr(type(self), name):  # a property that failed: let its own error be seen
            return object.__getattribute__(self, name)
        hint = f"; to_datatree() has it: result.to_datatree().{name}" if name in TREE_GROUPS else ""
        raise AttributeError(f"a Result has no attribute {name!r}{hint}")

    __iter__ = None
    __contains__ = None

    def __getitem__(self, name: Any) -> Any:
        """Raise ``TypeError``, with a hint: a result is no dict."""
        raise TypeError(
            f"a Result is no dict; got [{name!r}]. To fix it, write result.values()[{name!r}] for the draws of the "
            f'tilted density, or result.to_datatree()["posterior"][{name!r}] for draws of equal weight.'
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Return an array that holds this result as one object; raise ``TypeError``, with a hint, if ArviZ asks."""
        from sahmc.results.old_arviz import as_object

        return as_object(self)

    def extend(self, draws: int, *, progressbar: bool = True) -> Result:
        """Return the result of the same run with ``draws`` more draws of each chain; this one stays as it is.

        They are the bits of a run that was asked for all of them at first, unless draws have shown a mode that the
        warm-up did not know, for which a run begins anew. A run that is kept in a folder goes on there, as by
        ``sahmc.resume``.
        """
        require_count(draws, "draws")
        require_flag(progressbar, "progressbar")
        longer = self._running("extend").extend(draws, progressbar)
        return Result(dataclasses.replace(longer.record, labels=self.record.labels), longer.live)

    def expectation(self, fn: PositionFn | None = None) -> Expectation:
        """Return the posterior mean of ``fn`` and its Monte Carlo standard error.

        ``fn`` is a function of one position, or of the named variables of a model, written with ``jax.numpy``; None
        stands for the position itself.
        """
        return expectations.expectation(self.record, fn)

    def ess(self, fn: PositionFn | None = None) -> Any:
        """Return the effective sample size of ``expectation(fn)``: posterior variance over squared standard error.

        Autocorrelation and weights both count. It has the structure of what ``fn`` returns.
        """
        return expectations.effective_sample_size(self.record, fn)

    def values(self, fn: PositionFn | None = None) -> Any:
        """Return ``fn`` of every draw, arrays (chain, draw, ...); the draws themselves if None."""
        return expectations.values(self.record, fn)

    def resample(self, n: int | None = None, seed: int = 0) -> Any:
        """Return ``n`` equal-weight draws of the posterior, chain by chain in time order; as many as were made if None.

        ``seed`` is for the one random number that this takes.
        """
        n = self.log_weight.size if n is None else n
        chosen = self.resample_index(n, seed)
        return jax.tree.map(lambda x: np.asarray(x[chosen]), self.draws)

    def resample_index(self, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return which chain and which draw each of ``n`` equal-weight draws is, as two arrays.

        ``seed`` is for the one random number that this takes.
        """
        require_count(n, "n")
        require_seed(seed, "seed")
        return expectations.resample_index(self.record, n, seed)

    def membership(self, every: tuple[int, int] = (1, 1)) -> np.ndarray:
        """Return the membership of every draw in every region under the frozen theta, (chain, draw, region).

        ``every`` is (i, j) to take every i-th chain and every j-th draw.
        """
        return evidence.membership(self.record, every)

    def log_omega(self, log_total: float = 0.0) -> np.ndarray:
        """Return log omega_i of every region; for a tempered tilt log Z(beta_i), level 0 being the posterior.

        theta alone leaves a constant C open: ``log_total`` is the known log of the total (the default 0 makes
        omega posterior probabilities, and Z relative to the posterior's). Regions never visited have -inf. Where
        theta was frozen, the frequencies used are those observed, otherwise pi_i + nu of the paper.
        """
        return evidence.log_omega(self.record, log_total)

    def log_evidence(self, method: str = "theta") -> Expectation:
        """Return the log of the marginal likelihood or, of a raw log density, of its integral, and the standard error.

        Where the prior is apart that is the integral of prior times likelihood over that of the prior. Elsewhere it is
        the integral of exp(log density) over all positions, with whatever constants the log density has.

        ``method`` is "theta", from theta and the visits to both ends of the ladder, or "bridges", from the energies at
        each level (Bennett's acceptance ratio between neighbours). Both are nan where the run does not support them;
        a finding of severity "error" then says why.

        This needs a tempered tilt whose last level is the prior or a reference, beta = 0, as it is by default, with one
        theta for all chains that was frozen while draws were made.
        """
        return evidence.log_evidence(self.record, method)

    def rejections(self) -> np.ndarray:
        """Return how often a swap of two chains on neighbouring levels of the ladder would be rejected, pair by pair.

        Their sum is about the barrier Lambda between posterior and top; a value near 1 is a gap that chains hardly
        cross. This needs a tempered tilt.
        """
        return ladder.rejections(self.record)

    def search_power(self, mass: float = 0.1, width: float = 1 / 3, place: str | None = None) -> float:
        """Return the probability that the run would have found a mode of this mass and width, had there been one.

        ``mass`` is its share of the posterior, in (0, 1). ``width`` is its width in units of that of the nearest known
        mode, whose shape it has; the answer is nan above 1, where nothing was measured. ``place`` is "inside" the known
        modes, "near" them, up to ten widths beyond the rim of one, or "far", 10 to 100 widths. By default the answer is
        the least of these, without "far" unless known modes are as far apart. The mode is put at a random such place.
        This needs a run that looked for modes, as it does by default.
        """
        return search.search_power(self.record, mass, width, place)

    def modes(self, var_names: Any = None) -> ModeTable:
        """Return the modes of the posterior, heaviest first, found without being told how many.

        The table holds the mass of each, how many chains saw it, and its place: mean, standard deviation and lowest
        point. It prints the quantities in which modes differ most, of the variables in ``var_names`` if given; all are
        in ``to_dataframe()``. A mode has the label that ``sample_stats.mode`` has for its draws; modes of hardly any
        mass are left out. Copies that a symmetry makes are one mode; the table tells how many there are. Where the run
        did not look for modes, they are looked for now.
        """
        record = self._with_modes("modes()")
        assert record.modes is not None
        return mode_table(record, record.modes, var_names)

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """The symmetries of the variables that the run has found, or was given."""
        return tuple(known_symmetries(self.record))

    def relabel(self, symmetries: Any = None) -> Any:
        """Return the draws, each carried to the copy of its mode that others are in, in the structure of ``draws``.

        ``symmetries`` is a list of ``Permute`` and ``Flip``; if None, the default, those that the run knows.
        Component 1 of a mixture, say, is then the same thing throughout. Weights stay as they are.
        """
        return relabelled(self.record, symmetries)

    def summary(
        self,
        fn: PositionFn | None = None,
        prob: float = 0.94,
        *,
        var_names: Any = None,
        mode: int | None = None,
    ) -> Summary:
        """Return a table of every quantity, and the findings in words: print it, or take ``to_dataframe()``.

        Its columns are mean, standard deviation and highest-density interval of probability ``prob`` of the posterior,
        Monte Carlo standard error, effective sample size, and R-hat (ArviZ's, of equal-weight draws, each row from one
        chain). The quantities are the coordinates of the position, relabelled if modes have copies, or what ``fn`` of
        it returns.

        ``var_names`` is a list of variables as ArviZ takes it: names, or names after "~", which are left out. ``mode``
        is the label of a mode, as ``modes()`` prints it: the table is then of the posterior within that mode.
        """
        return summarise(self._with_modes("mode=", mode), fn, prob, var_names, mode)

    def assign_coords(self, coords: Mapping[str, Any], dims: Mapping[str, Any] | None = None) -> Result:
        """Return this result with names for its axes, which tables, plots and ``to_datatree`` then use.

        ``coords`` are the names along each dimension, such as ``{"county": ["Aitkin", "Anoka"]}``, and ``dims`` the
        dimensions of each variable, such as ``{"a": ["county"]}``. Those that the model has, such as the plates of
        NumPyro, need not be given. Findings keep the words that they have.
        """
        require_mapping(coords, "coords", '{"county": ["Aitkin", "Anoka"]}')
        require_mapping(dims, "dims", '{"a": ["county"]}')
        labels = with_coords(self.record, coords or {}, dims or {})
        return Result(dataclasses.replace(self.record, labels=labels), self.live)

    def to_datatree(
        self,
        *,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Any] | None = None,
        rejuvenate: int = 0,
        log_likelihood: bool = False,
        posterior_predictive: bool = False,
        prior: bool = False,
        seed: int = 0,
    ) -> Any:
        """Return an ``xarray.DataTree`` in ArviZ's schema.

        ``posterior``, ``sample_stats``
            As many draws as were made, resampled to have equal weight, in time order; heavy draws repeat. Each row is
            of one chain, ``sample_stats.source``; a chain fills as many rows as its share of the weight is worth. With
            ``rejuvenate=k`` each is then moved by k plain transitions of the kernel, so that next to none
            do; ``seed`` is for all that is random here.
        ``weighted_posterior``, ``weighted_sample_stats``
            The draws as they were made, of the tilted density, with ``log_weight``, ``region`` and ``energy``.
        ``relabelled_posterior``
            The draws of ``posterior`` as ``relabel`` gives them, where modes have copies.
        ``sahmc``
            theta, visits and desired frequencies of each region, its energies or inverse temperatures, theta's trace.
        ``warmup_posterior``, ``warmup_sample_stats``
            The draws of the adaptation, as they were made, if they were saved.
        ``observed_data``, ``constant_data``
            The data, where the model knows them.

        ``log_likelihood``
            With ``log_likelihood=True``, that of every observation under each draw of ``posterior``, for ``az.loo``.
        ``posterior_predictive``
            With ``posterior_predictive=True``, data that the model makes under each draw of ``posterior``.
        ``prior``, ``prior_predictive``
            With ``prior=True``, a thousand draws of the prior, and the data that the model makes of each.

        The last three need a model of NumPyro, PyMC or Stan, and the result that ``sample`` returned. Of a Stan program
        they are the generated quantities ``log_lik`` and ``y_rep``; it has no prior apart.

        ``coords`` and ``dims`` are ArviZ's, for variables named as in the draws; the model's own need not be given.
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
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Any] | None = None,
        rejuvenate: int = 0,
        log_likelihood: bool = False,
        posterior_predictive: bool = False,
        prior: bool = False,
        seed: int = 0,
    ) -> Any:
        """Return what ``to_datatree`` does as an ``arviz.InferenceData``, for ArviZ before 1.0.

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
        """Write a NetCDF file (or, if ``path`` ends in ".zarr", a Zarr store) that ArviZ and ``load`` read.

        An existing file is left alone unless ``overwrite`` is true.
        """
        files.save(self.record, path, overwrite)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Result:
        """Return the result that ``save`` wrote: the same record, without the model, so no new moves can be made."""
        return cls(files.load(path))

    def _with_modes(self, what: str, mode: Any = 0) -> RunRecord:
        """Return the record with its modes, which are looked for now if the run did not; as it is if ``mode`` is None.

        ``what`` needs them, as the error says where they cannot be looked for any more.
        """
        if mode is None or self.record.modes is not None:
            return self.record
        found = self._alive(f"{what} of a run that did not look for modes").assign_modes(self.record.draws)
        return dataclasses.replace(self.record, modes=found)

    def _running(self, what: str) -> LiveRun:
        """Return the run that made the draws, or raise ``ValueError``, saying that ``what`` needs it."""
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
        """Return the run that made the draws, if it has whole positions, or raise ``ValueError``; see ``_running``."""
        live = self._running(what)
        must = f"{what} needs whole positions"
        require(live.has_positions, must, "a result that was sampled with keep=", "sample without keep=")
        return live

    def __repr__(self) -> str:
        return as_text(overview(self.record))

    def _repr_html_(self) -> str:
        lines = overview(self.record)
        return "<b>sahmc.Result</b>" + Table("", [""], list(lines), [[line] for line in lines.values()]).to_html()


def require_result(value: Any) -> None:
    """Raise ``ValueError`` unless a value is the result of a run."""
    ok, what = isinstance(value, Result), f"a {type(value).__name__}"
    todo = "pass what sahmc.sample returned, or sahmc.Result.load(path)"
    require(ok, "result must be the result of a run", what, todo)
