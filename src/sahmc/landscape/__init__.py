"""The shape of a posterior: ways downhill, modes, and the barriers between them."""
