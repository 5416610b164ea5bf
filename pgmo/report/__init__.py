"""Findings about a profile: holders, leaks and advice, as values, text and pages."""
