"""Causes in single operations: tensors that another way of computing the same does not need."""
