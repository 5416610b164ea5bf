"""Origin of a block: the code that requested it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tag:
    """Origin of a block. Unknown parts are empty.

    Args:
        module: dotted path of the module, which begins with the root's class name; "" outside of
            modules.
        op: the operator, such as "aten.addmm".
        phase: "forward", "backward", "recompute" (forward code that runs again for the backward
            pass), "optimizer" or "other".
        file: the innermost line of the user's own code, "train.py:31 in forward".
        stack: the lines of Python code, innermost first, in the form of `file`.

    Example:
        >>> print(Tag("GPT.blocks.3.mlp", "aten.addmm", "forward"))
        GPT.blocks.3.mlp, aten.addmm (forward)
    """

    module: str
    op: str
    phase: str
    file: str = ""
    stack: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = ", ".join(part for part in (self.file, self.module, self.op) if part)
        phase = f"({self.phase})" if self.phase else ""
        return " ".join(part for part in (place, phase) if part)
