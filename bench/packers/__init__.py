"""Contestants of `packing.py`, and the problems that they solve."""
