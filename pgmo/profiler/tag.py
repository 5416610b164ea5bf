"""Who asked for a block."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tag:
    """The origin of a block, as far as it is known.

    Args:
        module: dotted path of the module, its root's class name first; "" when outside of modules.
        op: the operator, such as "aten.addmm".
        phase: "forward", "backward", "recompute" (what of the forward pass runs again for the
            backward pass), "optimizer" or "other"; "" when it is not known.
        file: the innermost line of the user's own code, "train.py:31 in forward"; "" if not known.
        stack: the lines of Python code, innermost first, in the form of `file`.

    Example:
        >>> Tag("GPT.blocks.3.mlp", "aten.addmm", "forward").phase
        'forward'
    """

    module: str
    op: str
    phase: str
    file: str = ""
    stack: tuple[str, ...] = ()
