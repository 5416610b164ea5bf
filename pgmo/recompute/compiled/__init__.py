"""Models captured by Dynamo: all graphs of a step share one budget.

model      graph 0   break   graph 1   break   graph 2   loss
dry run    graphs save nothing, gradients are zeros; other code is measured; changes are undone
plan       all graphs are joined with the measured memory of the code between them
run        each graph runs its part of the schedule
"""
