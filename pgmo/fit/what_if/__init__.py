"""Alternatives to the script, other cards, and the time on each."""
