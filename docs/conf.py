"""Sphinx configuration."""

import importlib.metadata
import os

import sahmc

# For the notebooks: most of their time is compilation, and this takes a third off. Newer versions do not know the
# second flag, and would stop at it.
if importlib.metadata.version("jax").startswith("0.10."):
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")  # NumPyro's bars would like widgets

project = "sahmc"
author = "The sahmc developers"
version = release = sahmc.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
html_title = f"sahmc {release}"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_output_stderr = "show"  # a run with findings says so on the page
exclude_patterns = ["_build", "results", "*_table.md", "validation_bars.md"]
suppress_warnings = ["myst.xref_missing"]


def setup(app):
    """Keep napoleon from attributes and properties, where it would take what stands before a colon for a type."""
    said = {}

    def before(app, what, name, obj, options, lines):
        said[name] = list(lines)

    def after(app, what, name, obj, options, lines):
        if what in ("attribute", "property"):
            lines[:] = said[name]

    app.connect("autodoc-process-docstring", before, priority=400)
    app.connect("autodoc-process-docstring", after, priority=600)
