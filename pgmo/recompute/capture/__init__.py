"""Capture of a joint graph as operations and values for planners."""
