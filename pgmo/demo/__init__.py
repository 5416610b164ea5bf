"""Four real networks in plain torch on synthetic data, each trained without and with pgmo."""
