"""Planners of recomputation: from a graph and a budget to a choice, without PyTorch."""
