"""Calls of a model: their signature, what is refused, and what a capture restores.

signature   the key that distinguishes planned calls; `modes` are PyTorch's settings in it
refusals    models and hooks that cannot be planned
undone      a forward pass whose changes are undone; `contents` are those of attributes
objects     objects with tensors inside
lines       lines of the user's code, for messages
"""
