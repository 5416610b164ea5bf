"""Search for Python objects that keep tensors alive, for `pgmo run --who-keeps`."""
