"""What Python code does in a forward pass happens once, while it is captured: what that froze.

    what is read        reads (attributes), code (globals and closures), values (compared later)
    what tensors say    values: those that Python code reads of them
    what is drawn       draws: random numbers of Python and NumPy
    what would not run  hooks of submodules; wrappers, which have code of their own around a model
    what it ran under   modes: settings of PyTorch, each of which is captured by itself

`guard` puts attributes, names and draws together; each message names the line.
"""
