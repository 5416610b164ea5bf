"""Models captured by Dynamo: all graphs of a step under one budget.

    model      graph 0   break   graph 1   break   graph 2   loss
    capture    one step of which nothing stays: graphs save nothing, gradients are zeros
    plan       one graph of all of them, with the code between them as it was measured
    run        each graph runs its share of the schedule, operator by operator

halves      one plan of a graph: runners of its forward and its backward pass
graph       a graph of Dynamo's, whose halves can be exchanged
discovery   the step of which nothing stays
planned     the plan of a step: its graphs' shares
model       what is called in the place of the model's forward method
"""
