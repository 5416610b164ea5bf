"""Attempts of `pgmo run --fit` to run a job that does not fit."""
