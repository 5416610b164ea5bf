"""Reads what other tools recorded: one format a file, all into traces."""
