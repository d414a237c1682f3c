"""The report of a run, as one self-contained HTML page."""

from __future__ import annotations

import base64
import html
import io
import time
from os import PathLike
from typing import TYPE_CHECKING

from sahmc._support.tables import Table
from sahmc._support.validate import as_new_file, require
from sahmc.plots.figures import plot_overview, plot_pair, pyplot
from sahmc.results.findings.listing import Findings, as_list
from sahmc.results.result import Result, require_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 68rem; margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p.line { color: #666; margin-top: 0; }
.verdict { border-radius: 8px; padding: .8rem 1.2rem; margin: 1.2rem 0; }
.good { background: #e6f2ea; } .warning { background: #fdf3dc; } .error { background: #fbe4e1; }
.verdict li { margin: .4rem 0; }
.wide { overflow-x: auto; } img { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #e4e4e4; }
tbody th { text-align: left; font-weight: 500; }
code, pre { font-size: .88rem; background: #f5f5f5; border-radius: 4px; }
code { padding: .1rem .3rem; } pre { padding: .8rem 1rem; overflow-x: auto; }
footer { color: #777; font-size: .85rem; margin-top: 3rem; }
"""
CITE = "J. Yun, M. Shin, I. H. Jin and F. Liang, Stochastic approximation Hamiltonian Monte Carlo; software: sahmc "


def write_report(result: Result, path: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write one HTML page about a run: findings first, then summary, modes, plots, settings, and how to cite.

    The path must end in ".html" or ".htm". An existing page is refused unless ``overwrite``.
    """
    require_result(result)
    out = as_new_file(path, overwrite)
    require(out.suffix in (".html", ".htm"), "a page is a file like run.html", str(out), "change the ending")
    out.write_text(page(result), encoding="utf-8")


def page(result: Result) -> str:
    """Return the report of a run as HTML, with embedded figures."""
    summary = result.summary()
    evidence = f"<p><b>{html.escape(summary.evidence)}</b></p>" if summary.evidence else ""
    sections = [
        f"<h1>sahmc run</h1><p class='line'>{html.escape(summary.headline)}</p>",
        _verdict(result.findings),
        f"<h2>Summary</h2>{evidence}<p class='line'>Posterior, by weight. <code>ess</code> and <code>r_hat</code> "
        f"count weights and autocorrelation.</p><div class='wide'>{summary.table(200).to_html()}</div>"
        + "".join(f"<p>{html.escape(note)}</p>" for note in summary.notes if note != summary.evidence),
        _modes(result),
        "<h2>Plots</h2>" + _image(plot_overview(result), "Six plots of the run"),
        _pairs(result),
        f"<h2>Warm-up</h2><pre>{html.escape(str(result.warmup))}</pre>",
        "<h2>Settings</h2>" + _settings(result),
        f"<h2>How to cite</h2><p>{CITE}{html.escape(str(result.settings['versions']['sahmc']))}.</p>",
        f"<footer>Written {time.strftime('%Y-%m-%d %H:%M')} by sahmc.</footer>",
    ]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>sahmc run</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<style>{STYLE}</style></head><body>{''.join(sections)}</body></html>"
    )


def _verdict(findings: Findings) -> str:
    kind = "error" if any(f.severity == "error" for f in findings) else "warning" if findings else "good"
    more = as_list(findings) or "<p>Chains agree, the ladder was walked, and nothing else was found wrong.</p>"
    return f"<div class='verdict {kind}'><b>{html.escape(findings.verdict)}</b>{more}</div>"


def _modes(result: Result) -> str:
    if result.mode_assignment is None:
        return ""
    found = result.modes()
    note = "Basins of the log density that a straight line cannot join without a climb of 2 nats, heaviest first."
    return f"<h2>Modes</h2><p class='line'>{note}</p><div class='wide'>{found._repr_html_()}</div>"


def _pairs(result: Result) -> str:
    axes = plot_pair(result, num=4)
    if not hasattr(axes, "shape"):
        pyplot().close(axes.figure)
        return ""
    return _image(axes.flat[0].figure, "Pairs of coordinates")


def _settings(result: Result) -> str:
    rows = result.settings
    rows |= {
        **rows.pop("versions"),
        "gradients": f"{result.num_gradients:,}",
        "divergences": result.num_diverging,
        "acceptance": f"{result.acceptance_rate:.3f}",
        "sampling_time": f"{rows['sampling_time']:.1f} s",
    }
    return f"<div class='wide'>{Table('', [''], list(rows), [[str(v)] for v in rows.values()]).to_html()}</div>"


def _image(figure: Figure, name: str) -> str:
    """Return a figure as HTML with the image embedded, and close it; ``name`` is the alternative text."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    pyplot().close(figure)
    return f"<p><img alt='{name}' src='data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}'></p>"
