"""Offloading of values to the host: memory and transfers."""
