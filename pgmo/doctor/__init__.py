"""Examination of this machine: which frameworks pgmo can serve, problems, and remedies."""
