"""The output of the command line about a run, as text or as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sahmc._support.frozen import thawed
from sahmc._support.words import listed, wrapped
from sahmc._version import __version__
from sahmc.comparison import Comparison
from sahmc.results.result import Result


def print_result(result: Result, as_json: bool) -> None:
    """Print findings, summary, modes and evidence of a run, as text or as one JSON object."""
    if as_json:
        print(json.dumps(described(result), indent=1, allow_nan=False))
        return
    print(result.summary())
    modes = () if result.mode_assignment is None else result.modes()
    if len(modes) > 1:
        print(f"\nModes:\n{modes}")


def print_comparison(found: Comparison, doubtful: Sequence[str], as_json: bool) -> None:
    """Print a comparison of models, as text or as one JSON object; the runs of ``doubtful`` models have errors."""
    if as_json:
        numbers = {
            name: {key: column[i] for key, column in found.columns.items()} for i, name in enumerate(found.names)
        }
        about = {"sahmc": __version__, "trusted": not doubtful, "models": numbers, "notes": found.notes}
        print(json.dumps(_plain(about), indent=1, allow_nan=False))
        return
    print(found)
    if doubtful:
        print(f"\n{wrapped(f'Do not trust this: there are errors in {listed(doubtful)}. See sahmc summary.', '')}")


def is_doubtful(result: Result) -> bool:
    """Return whether a run has findings of severity error."""
    return any(finding.severity == "error" for finding in result.findings)


def described(result: Result) -> dict[str, Any]:
    """Return the description of a run for programs, in a form that fits JSON; unknown numbers are null."""
    table = result.summary().to_dataframe()
    found = {
        "sahmc": __version__,
        "trusted": not is_doubtful(result),
        "findings": [finding._asdict() for finding in result.findings],
        "summary": {str(name): dict(row) for name, row in table.to_dict("index").items()},
        "modes": None if result.mode_assignment is None else result.modes().to_dataframe().to_dict("records"),
        "log_evidence": _evidence(result),
        "num_gradients": result.num_gradients,
        "round_trips": int(result.round_trips.sum()),
        "settings": thawed(result.settings),
    }
    return _plain(found)


def _evidence(result: Result) -> dict[str, object] | None:
    """Return the log evidence, its standard error, and whether the model has a prior; None if it is unknown."""
    try:
        mean, mcse = result.log_evidence()
    except ValueError:
        return None
    return {"mean": mean, "mcse": mcse, "prior": result.settings["prior"]}


def _plain(value: object) -> Any:
    """Return a value with Python numbers in place of NumPy's, and None in place of numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
