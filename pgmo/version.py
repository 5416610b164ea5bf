"""The version, in the one place that does not import anything."""

__version__ = "0.1.0"
