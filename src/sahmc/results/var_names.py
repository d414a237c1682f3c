"""The choice of variables by name, with ArviZ's rules."""

from __future__ import annotations

from typing import Any, TypeVar

from sahmc._support.validate import require

V = TypeVar("V")


def choose_variables(variables: dict[str, V], var_names: Any) -> dict[str, V]:
    """Return the ``variables`` named in ``var_names``, in that order; all of them if it is None.

    ``var_names`` is a name or a list of names. A name after "~" is left out, from the other names if there are any,
    else from all variables.
    """
    if var_names is None:
        return variables
    names = [var_names] if isinstance(var_names, str) else var_names
    known = ", ".join(map(repr, variables))
    must = f"var_names must be variables of the draws, {known}, or these after a ~"
    is_list = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    require(is_list, must, var_names, "pass a list of names")
    left_out = [name[1:] for name in names if name.startswith("~") and name not in variables]
    taken = [name for name in names if not name.startswith("~") or name in variables]
    stray = [name for name in (*taken, *left_out) if name not in variables]
    require(not stray, must, stray, "use these names, without brackets")
    chosen = {name: variables[name] for name in taken or variables if name not in left_out}
    require(chosen, must, var_names, "leave at least one")
    return chosen
