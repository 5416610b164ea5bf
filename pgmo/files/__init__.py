"""Files that pgmo writes: the cache folder, atomic replacement, and removal of leftovers."""
