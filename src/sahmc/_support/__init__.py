"""What every room uses and nobody else should import: checks, pytrees, traced functions, tables."""
