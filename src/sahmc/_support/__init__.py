"""Tools for the rest of the library, and for nobody else: checks, pytrees, traced functions, tables."""
