"""The warm-up: everything learnt before drawing starts."""
