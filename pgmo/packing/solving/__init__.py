"""Solvers of packing problems, and the choice of the solvers to run."""
