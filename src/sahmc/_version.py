"""The version of this library, said once."""

__version__ = "0.2.0.dev2"
