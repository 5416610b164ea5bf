"""Findings about profiles and traces, as values. Each file has one kind of finding."""
