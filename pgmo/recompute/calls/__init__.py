"""Calls of a model: their signature, what is refused, and what a capture puts back.

signature   the key that distinguishes planned calls; `modes` are PyTorch's settings in it
refusals    models and hooks that are not planned
undone      a forward pass of which nothing stays; `contents` are those of attributes
objects     objects with tensors inside
lines       lines of the user's code, as messages name them
"""
