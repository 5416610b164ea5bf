"""Solvers, and who runs them on what for how long."""
