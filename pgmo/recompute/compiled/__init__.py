"""Models captured by Dynamo: all graphs of a step under one budget.

model      graph 0   break   graph 1   break   graph 2   loss
capture    one step, undone afterwards: graphs save nothing, gradients are zeros
plan       one graph of all of them, with the code between them as it was measured
run        each graph runs its share of the schedule, operator by operator

model      stands in the place of the model's forward method
step       a kind of call that is planned; measure, pending: its first real step
graph      a graph of Dynamo's with plans that can be exchanged; blocks: repeated ones
dry_run    the step that is undone
plan       the plan of a step, and its graphs' shares
dynamo     settings and reports of Dynamo
"""
