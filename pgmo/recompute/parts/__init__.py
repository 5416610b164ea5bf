"""Models whose forward pass is no single graph: several captured parts under one budget.

model     eager   block 0   eager, prints   block 1   .item() decides   block 2   loss
captured          part                      part                        part
planned   one graph of all parts, with what lies between them as it was measured

answers   what is called in the place of a submodule, while the model runs in one thread
probe       runs a step of which nothing stays: finds the parts, or measures what lies between
order       whether autograd sums the same gradients in the same order
together    one graph of all parts, and of what was measured
decided     what of the plan belongs to each part
divided     finds, measures, plans, and runs the parts
"""
