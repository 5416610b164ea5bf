"""Importers of recordings by other tools: one module for each file format."""
