"""Dynamo's settings, and its graph breaks, errors and names."""
