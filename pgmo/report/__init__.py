"""Findings about a profile: what holds memory, leaks, and advice. As values, text and pages."""
