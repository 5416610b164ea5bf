"""Interface to the operators that torch runs, and their names in reports."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol


class OperatorAnswer(IntEnum):
    """Return values of `begin`; csrc/adapters/torch_operators.hpp has the same values."""

    NEVER = 0
    """This operator is never reported."""
    HIDDEN = 1
    """This call is not reported."""
    REPORTED = 2
    """This call is reported. The tag that `begin` has set ends with the operator."""
    WITH_GRAD = 3
    """This operator is reported only while autograd records operators."""


class Operators(Protocol):
    """Callbacks around each operator of a thread, without any effect on its results or requests.

    Operators inside of a reported operator are not reported.
    """

    def observe(self, begin: Callable[[str, str, int], OperatorAnswer]) -> None:
        """Report the operators of the calling thread and of its backward passes from now on.

        When an operator has returned or failed, the native tag of its thread is reset.

        Args:
            begin: called before an operator. The arguments are the operator's name, like
                "aten::addmm"; the name of the overload, which may be ""; and the number of graph
                nodes that the thread had made when its latest reported operator ended, or -1.
        """

    def ignore(self) -> None:
        """Stop all reports. Any thread may call this."""

    def suspend(self, suspended: bool) -> None:
        """Stop (True) or resume (False) reports of the calling thread's operators."""


def report_name(name: str, overload: str) -> str:
    """Return an operator's name for reports; "" for an operator that only calls other operators.

    Args:
        name: name of the operator, like "aten::addmm".
        overload: name of its overload, or "".
    """
    import torch

    core: Any = torch._C
    full = f"{name}.{overload}" if overload else name
    if core._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd"):
        return ""
    namespace, _, base = name.partition("::")
    return f"{namespace}.{base}"


def requests_nothing(name: str, overload: str) -> bool:
    """Return whether an operator is pointwise and writes in place.

    Half of an optimizer's operators are of this kind, and they allocate nothing. While autograd
    records, operators of this kind matter: an in-place ReLU, for example, adds a graph node.
    """
    import torch

    namespace, _, base = name.partition("::")
    if not base.endswith("_"):
        return False
    packet = getattr(getattr(torch.ops, namespace), base)
    return torch.Tag.pointwise in getattr(packet, overload or "default").tags
