"""The findings of a run as text: a verdict, then each problem with advice."""

from __future__ import annotations

import html
from collections.abc import Iterable

from sahmc._support.words import counted, wrapped
from sahmc.results.records import Finding

ERROR, WARNING = "error", "warning"
"""The severities of a finding."""
GO_ON = "Go on with Result.extend or, from a checkpoint, with sahmc.resume."
"""The advice for a run that was interrupted."""


class Findings(tuple[Finding, ...]):
    """The findings, errors first: a tuple that prints as sentences. It is empty if nothing is wrong."""

    __slots__ = ()

    @property
    def verdict(self) -> str:
        """A line on whether to trust the run."""
        if not self:
            return "No findings."
        errors = sum(finding.severity == ERROR for finding in self)
        found = {"error": errors, "warning": len(self) - errors}
        told = ", ".join(counted(number, noun) for noun, number in found.items() if number)
        return f"Do not trust this run: {told}." if errors else f"{told}."

    def __str__(self) -> str:
        return "\n".join([self.verdict, *map(_as_text, self)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p><b>{html.escape(self.verdict)}</b></p>" + as_list(self)


def _as_text(finding: Finding) -> str:
    """Return a finding as two sentences, each on separate lines."""
    seen = wrapped(f"{finding.severity}: {finding.sentence}")
    return f"{seen}\n{wrapped(f'    {finding.advice} [{finding.code}]')}"


def as_list(findings: Iterable[Finding]) -> str:
    """Return findings as an HTML list; empty if there are none."""
    items = "".join(
        f"<li><b>{severity}</b>: {sentence} <i>{advice}</i> <code>{code}</code></li>"
        for code, severity, sentence, _, advice in ([html.escape(str(x)) for x in f] for f in findings)
    )
    return f"<ul>{items}</ul>" if items else ""
