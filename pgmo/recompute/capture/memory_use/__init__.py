"""Costs of operators: modelled time and measured memory."""
