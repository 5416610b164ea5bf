"""Planning: computes an offset in one arena for every block of a profile.

Problem  input: sizes and (circular) lifetimes
Plan     result: one row for each row of the profile
plan     runs the packers and keeps the best result
validate checks a plan without any of the packers' code
"""
