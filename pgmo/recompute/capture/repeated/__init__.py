"""Repeated blocks: one is traced, and its nodes are copied for the others."""
