"""Importers of other tools' recordings: one module per format, all producing traces."""
