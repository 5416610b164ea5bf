"""Several processes that train together: which one this is, and the directory of their plans."""
