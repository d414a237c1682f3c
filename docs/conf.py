"""Sphinx configuration."""

import sahmc

project = "sahmc"
author = "The sahmc developers"
version = release = sahmc.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
html_title = f"sahmc {release}"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
exclude_patterns = ["_build", "results"]
suppress_warnings = ["myst.xref_missing"]
