"""Internal tools for the rest of the library: checks, pytrees, traced functions, tables."""
