"""Findings about profiles and traces: one question per file, answered in values."""
