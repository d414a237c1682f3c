"""Posteriors: the class ``Model``, and conversion of models written with other libraries."""
