"""Dynamo's settings, graph breaks and errors, and patches of Dynamo."""
