"""Causes in the training step: gradients, graphs and the optimizer."""
