"""Energy barriers between two modes, by the string method."""
