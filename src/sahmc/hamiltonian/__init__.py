"""The mechanics: kinetic energy and its metric, and the integrator."""
