"""Costs of operators: their time by a model, and their workspaces as they are measured."""
