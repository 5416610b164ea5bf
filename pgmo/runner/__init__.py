"""Runs of unmodified training scripts, with sessions around their iterations."""
