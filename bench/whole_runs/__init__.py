"""Runs the programs of `bench/programs` from their first line to their last, without pgmo and with."""
