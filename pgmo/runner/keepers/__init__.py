"""Search for the Python objects that keep tensors alive: `pgmo run --who-keeps`."""
