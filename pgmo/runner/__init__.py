"""Runs training scripts that know nothing of pgmo, with sessions around their iterations."""
