"""Who asks for each block: module, operator and phase, in a thread-local number while recording.

Blocks are requested deep inside of operators, where no Python may run. So around each operator a
number is left where the allocator finds it, and the number's meaning is kept here:

    model(x) -> GPT.forward -> GPT.mlp.forward -> aten.addmm: set_tag(17) [requests ...] set_tag(-1)
                                             17 = Tag("GPT.mlp", "aten.addmm", "forward")

Module and optimizer are those whose calls are on the stack: hooks would tell them too, but a
program, its compiler and its other hooks see hooks. In the backward pass no module is called. Its
operators are attributed to the module that made the graph node that is running, found by the node's
sequence number. Where torch lacks one of the private functions that this needs, module is "" there.

What is compiled is not looked into (see `dynamo`): all of it is one operator, "torch.compile".
Where inductor has compiled it, its own code tells the kernel instead (see `inductor`).
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from pgmo.locks import new_lock
from pgmo.profiler.tag import Tag
from pgmo.profiler.tagging import dynamo, origin
from pgmo.profiler.tagging.calls import Calls
from pgmo.profiler.tagging.module_paths import ModulePaths
from pgmo.profiler.tagging.operator_mode import OperatorMode

if TYPE_CHECKING:
    from pgmo.profiler.tagging.inductor import KernelOrigin

FORWARD, BACKWARD, OPTIMIZER, OTHER = "forward", "backward", "optimizer", "other"
RECOMPUTE = "recompute"
COMPILED = "torch.compile"
ADD, ADD_IN_PLACE = "aten.add", "aten.add_"
"""Of two gradients that meet. Autograd adds to the first in place, but not while a mode watches."""


class _Thread(threading.local):
    """What a thread is doing."""

    def __init__(self) -> None:
        self.sequence: int | None = None  # graph nodes made so far on this thread
        self.running: list[tuple[str, str]] = []  # module and phase of calls of generated code


class _Left(threading.local):
    """The module that a thread is left to, compiled, with a number in force; None for none.

    It outlives the tagger: the number has to be taken away in the end.
    """

    to: str | None = None
    number: int = -1


class Tagger(AbstractContextManager["Tagger"]):
    """Names the origin of every block requested while it is active. Changes no result.

    Slows operators down by some microseconds each, so it is meant for one recorded iteration. The
    program may enter and leave dispatch modes of its own meanwhile, and another thread may close
    it. Once closed it has the tags, and no reference to a module.

    What the program has compiled runs, and is compiled, as it is without. Once something is
    compiled, nothing more is watched: the iteration is unlike all that follow anyway.

    Args:
        set_tag: called on the requesting thread with an index into `tags`, or -1 for none.
        tags: those of an earlier one, whose numbers are still in use.

    Attributes:
        compiled: whether something was compiled meanwhile.

    Example:
        >>> with Tagger(_core.set_tag) as tagger:  # doctest: +SKIP
        ...     train_one_iteration()
        >>> tagger.tags[0]  # doctest: +SKIP
        Tag(module='Net.conv1', op='aten.convolution', phase='forward')
    """

    def __init__(self, set_tag: Callable[[int], None], tags: Iterable[Tag] = ()) -> None:
        self.compiled = False
        self._set_tag = set_tag
        self._index: dict[Tag, int] = {tag: number for number, tag in enumerate(tags)}
        self._operators: dict[object, str] = {}
        self._paths = ModulePaths()
        self._of_node: dict[int, str] = {}  # sequence number of a graph node -> module
        self._thread = _Thread()
        self._left = _Left()
        self._owner = threading.get_ident()
        self._lock = new_lock()
        self._active = ExitStack()

    @property
    def tags(self) -> tuple[Tag, ...]:
        """The tags given so far, by index."""
        return tuple(self._index)

    def __enter__(self) -> "Tagger":
        self._private = _Private()
        self._calls = Calls()
        self._owner = threading.get_ident()
        self._thread.sequence = self._private.sequence()
        with ExitStack() as undo:
            undo.enter_context(origin.listen())
            self._mode = undo.enter_context(OperatorMode(self._around))
            undo.callback(dynamo.attend(self))
            if dynamo.has_compiled():
                from pgmo.profiler.tagging import inductor  # and what reads Python

                undo.callback(inductor.listen(self))
            dynamo.skip(OperatorMode.__exit__)
            if dynamo.inside():
                self.withdraw()
            self._active = undo.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._active.close()
        self._set_tag(-1)
        self._forget()

    # --- compiled code --------------------------------------------------------------------------

    def withdraw(self) -> None:
        """Leaves the thread to code that is compiled; see `dynamo.Observer`."""
        if not self._mode.lift():
            return  # a thread that is not watched
        where, phase = self._where()
        self._left.number = self._number(Tag(where, COMPILED, _not_other(phase)))
        self._set_tag(self._left.number)
        self._left.to = where

    def come_back(self) -> None:
        """Watches the thread again; see `dynamo.Observer`."""
        module, self._left.to, self._left.number = self._left.to, None, -1
        if module is None:
            return
        self._set_tag(-1)
        if self._mode.put_back():
            # The nodes that were made meanwhile are not those of whatever comes next.
            self._note_nodes(module)

    def compiling(self) -> None:
        """Watches no more; see `dynamo.Observer`."""
        self.compiled = True
        self._mode.__exit__(None, None, None)

    # --- kernels of inductor --------------------------------------------------------------------

    def kernels_begin(self) -> None:
        """Notes whose kernels these are; see `inductor.KernelListener`."""
        module, phase = self._where()
        self._thread.running.append((module, _not_other(phase)))

    def kernel(self, origin: "KernelOrigin") -> None:
        """Says which kernel the next request is for; see `inductor.KernelListener`."""
        if self._thread.running:  # else the call began before this was told of any
            module, phase = self._thread.running[-1]
            tag = Tag(module, origin.name, phase, origin.file, origin.stack)
            self._set_tag(self._number(tag))

    def kernels_end(self) -> None:
        """Goes back to what the thread was doing; see `inductor.KernelListener`."""
        if self._thread.running:
            self._thread.running.pop()
        self._set_tag(self._left.number)

    def _forget(self) -> None:
        # All but the tags: whoever reads them later must not keep the program's modules alive.
        self._operators = {}
        self._paths = ModulePaths()
        self._of_node = {}
        self._thread = _Thread()

    # --- operators ------------------------------------------------------------------------------

    def _around(self, operator: Any, arguments: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if self._thread.running:
            return run()  # a kernel in a backward pass, which has its name already
        name = self._operators.get(operator)
        if name is None:
            name = self._operators.setdefault(operator, _name_of(operator))
        if not name:
            return run()  # as half of the operators of an optimizer's step
        module, phase = self._where()
        if name == ADD and phase is BACKWARD and _has_storage_alone(arguments[0]):
            name = ADD_IN_PLACE
        self._set_tag(self._number(Tag(module, name, phase)))
        try:
            return run()
        finally:
            self._set_tag(-1)

    def _number(self, tag: Tag) -> int:
        number = self._index.get(tag)
        if number is None:
            with self._lock:  # the backward pass of another device has a thread of its own
                number = self._index.setdefault(tag, len(self._index))
        return number

    def _where(self) -> tuple[str, str]:
        """Module and phase of the operator that is about to run on this thread."""
        backward = self._private.in_backward()
        modules, optimizer = self._calls.running()
        module = self._paths.innermost(modules)
        if module:
            # Called during the backward pass: a checkpoint computes its forward part again.
            phase = RECOMPUTE if backward else FORWARD
        elif backward:
            module, phase = self._of_running_node(), BACKWARD
        else:
            module, phase = optimizer, OPTIMIZER if optimizer else OTHER
        made = self._note_nodes(module)
        if made and phase is OTHER:
            phase = FORWARD  # a loss written without a module belongs to the forward pass
        said = origin.said()
        if said is not None:  # a captured step, which enters no modules
            module, phase = ".".join(filter(None, (module, said[0]))), said[1]
        return module, phase

    def _note_nodes(self, module: str) -> int:
        """Attributes the graph nodes made since the last call on this thread; returns how many."""
        count = self._private.sequence()
        if count is None:
            return 0
        before = self._thread.sequence
        self._thread.sequence = count
        if before is None:
            return 0  # a thread that was not watched so far: nobody knows whose nodes these are
        for number in range(before, count):
            if threading.get_ident() == self._owner:
                self._of_node[number] = module
            else:
                self._of_node.setdefault(number, module)  # other threads count on their own
        return count - before

    def _of_running_node(self) -> str:
        node = self._private.node()
        if node is None:
            return ""
        variable = getattr(node, "variable", None)
        if variable is not None:  # a gradient is accumulated
            return self._paths.owner(variable)
        sequence = getattr(node, "_sequence_nr", None)
        return self._of_node.get(sequence(), "") if callable(sequence) else ""


def _name_of(operator: Any) -> str:
    """Return what a report calls an operator; "" for one that is pointwise and in place.

    It requests no memory. But of a sum in place the profile has to know: see `ADD_IN_PLACE`.
    """
    import torch

    name = str(getattr(operator, "overloadpacket", operator))
    in_place = name.endswith("_") and torch.Tag.pointwise in getattr(operator, "tags", ())
    return "" if in_place and name != ADD_IN_PLACE else name


def _not_other(phase: str) -> str:
    """What is compiled belongs to the forward pass, unless it is known not to."""
    return FORWARD if phase is OTHER else phase


def _has_storage_alone(tensor: Any) -> bool:
    """Whether a tensor is all of its storage, as autograd demands of what it adds to in place."""
    import torch

    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return False
    return tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


class _Private:
    """The functions of torch that are not public; what is missing does nothing."""

    def __init__(self) -> None:
        import torch

        core: Any = torch._C
        autograd = getattr(core, "_autograd", None)
        self._task = getattr(core, "_current_graph_task_id", None)
        self._node = getattr(core, "_current_autograd_node", None)
        self._sequence = getattr(autograd, "_get_sequence_nr", None)

    def in_backward(self) -> bool:
        return self._task is not None and self._task() != -1

    def node(self) -> Any:
        return self._node() if self._node else None

    def sequence(self) -> int | None:
        return int(self._sequence()) if self._sequence else None
