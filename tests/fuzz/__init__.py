"""Fuzzer of files: none may crash pgmo, hang it, or exhaust the memory.

seeds      valid files of each kind
values     values that replace others
pickles    snapshots with changed values, instructions and bytes
archives   profiles and plans with changed members, fields and numbers, and a valid seal
texts      logs and tables with changed trees, lines and cells, some compressed
inputs     input number N of a seed, which is always the same
trial      commands of pgmo on an input
worker     process that tries inputs
campaign   trials of many inputs, in several workers

    python -m tests.fuzz --inputs 1000000
    python -m tests.fuzz --only 4711 --keep file     one input again
"""
