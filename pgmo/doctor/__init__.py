"""Examination of this machine: its equipment, problems for pgmo, and remedies."""
