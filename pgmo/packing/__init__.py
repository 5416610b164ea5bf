"""From a profile to a plan: an offset in one arena for every block.

Problem  what is to be packed: sizes and (circular) lifetimes
Plan     the answer, one row for each row of the profile
plan     runs the packers and keeps the best result
validate checks a plan without any of the packers' code
"""
