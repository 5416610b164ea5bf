"""Costs of operators: their modelled time, and their measured workspaces."""
