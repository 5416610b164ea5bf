"""Blocks that are there many times: one is traced, and its nodes are written once for each."""
