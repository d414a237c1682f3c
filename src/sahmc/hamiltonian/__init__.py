"""Hamiltonian mechanics: the kinetic energy with its metric, and the integrator."""
