"""Runs the programs of `bench/programs` from first line to last, without pgmo and with."""
