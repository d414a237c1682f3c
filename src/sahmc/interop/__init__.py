"""SAHMC through the interfaces of other libraries."""
