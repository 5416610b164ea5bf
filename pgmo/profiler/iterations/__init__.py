"""Splitting of events into iterations, and profiles made from iterations."""
