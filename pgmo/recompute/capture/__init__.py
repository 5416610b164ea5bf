"""From a model and example inputs to a graph that planners work on."""
