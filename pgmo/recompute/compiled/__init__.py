"""Models captured by Dynamo: all graphs of a step under one budget.

model      graph 0   break   graph 1   break   graph 2   loss
capture    a dry run of a step: graphs save nothing, gradients are zeros
plan       one graph of all of them, with the measured memory of the code between them
run        each graph runs its part of the schedule, operator by operator

model      replaces the model's forward method
step       a kind of call that is planned; measure: one of its steps; pending: waiting calls
graph      a captured graph with plans that can be exchanged; blocks: repeated ones
dry_run    a step whose changes are undone
plan       the plan of a step, and its graphs' parts
dynamo     settings and reports of Dynamo
"""
