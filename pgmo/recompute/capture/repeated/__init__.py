"""Repeated submodules: one is traced, and its nodes are copied for all further ones."""
