"""Causes in single operations: tensors that an equivalent computation does not need."""
