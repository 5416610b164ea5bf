"""Whole runs of the programs of `bench/programs`, without and with pgmo."""
