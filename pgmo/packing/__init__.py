"""Planning: computes offsets in one arena for the blocks of a profile.

Problem  input: sizes and (circular) lifetimes
Plan     result: one row for each row of the profile
plan     runs packers and solvers, and keeps the best result
validate checks a plan without the code of packers and solvers
"""
