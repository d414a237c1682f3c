"""The shape of a posterior: descents, modes, and the barriers between them."""
