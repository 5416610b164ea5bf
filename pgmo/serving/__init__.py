"""Inference: calls of a model are the iterations of a session."""
