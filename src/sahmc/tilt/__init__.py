"""The idea of the paper: energies cut into regions, theta over them, and the weights that undo it."""
