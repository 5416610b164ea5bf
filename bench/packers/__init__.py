"""What `packing.py` measures: contestants, and the problems that they are given."""
