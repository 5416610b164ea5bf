"""Causes that are further copies of weights."""
