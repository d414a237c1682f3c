"""SAHMC behind other libraries' front doors."""
