"""Causes in the training step: gradients, autograd graphs and the optimizer."""
