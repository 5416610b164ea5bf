"""Solvers of packing problems and their scheduling."""
