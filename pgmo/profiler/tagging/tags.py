"""Tagging of blocks with module, operator, phase and line, through a thread-local number.

Blocks are requested deep inside operators, where no Python code may run. So a thread-local number
is set around each operator, which the allocator reads. This module maps the numbers to tags:

    model(x) -> GPT.forward -> GPT.mlp.forward -> aten.addmm: set_tag(17) [requests ...] set_tag(-1)
                       17 = Tag("GPT.mlp", "aten.addmm", "forward", "model.py:54 in forward")

Modules and optimizers are found by their calls on the stack, because hooks would be visible to the
program and its compiler. In the backward pass, no module is called: an operator belongs to the
module and line that created the running graph node, found by the node's sequence number. Both are
"" if torch lacks a private function for this.

Compiled code is not inspected (see `dynamo`) and counts as one operator, "torch.compile". For code
of inductor, marks in the generated code name the kernel instead (see `inductor`).
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from pgmo.locks import new_lock
from pgmo.profiler.tag import Tag
from pgmo.profiler.tagging import dynamo, origin
from pgmo.profiler.tagging.calls import Calls
from pgmo.profiler.tagging.captures import suspend_during_captures
from pgmo.profiler.tagging.module_paths import ModulePaths
from pgmo.profiler.tagging.operator_mode import OperatorMode

if TYPE_CHECKING:
    from pgmo.profiler.tagging.inductor import KernelOrigin

FORWARD, BACKWARD, OPTIMIZER, OTHER = "forward", "backward", "optimizer", "other"
RECOMPUTE = "recompute"
COMPILED = "torch.compile"
ADD, ADD_IN_PLACE = "aten.add", "aten.add_"
"""Operators that add two gradients: the second one in place, the first under a dispatch mode."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.sequence: int | None = None  # Number of graph nodes made so far on this thread.
        # Module, phase and line of calls of generated code.
        self.running: list[tuple[str, str, str]] = []


class _CompiledCall(threading.local):
    """Module and line of the compiled code that runs on a thread, and the tag number meanwhile.

    It outlives the tagger, because the number must be reset at the end of the compiled call.
    """

    place: tuple[str, str] | None = None
    number: int = -1


class Tagger(AbstractContextManager["Tagger"]):
    """Context that tags every block requested in it, without changing results.

    It slows each operator down by a few microseconds, so it is meant for one recorded iteration.
    The program may enter and leave its own dispatch modes inside, and another thread may close the
    tagger. A closed tagger keeps the tags, but no reference to a module. Tagging stops at the first
    compilation, because an iteration with a compilation differs from all later ones.

    Args:
        set_tag: called on the requesting thread with an index into `tags`, or -1 for none.
        tags: tags of an earlier tagger whose numbers are still in use.
        expect_sum: called on the requesting thread with True before a sum of two gradients is
            requested that untagged programs compute in place, and with False afterwards.

    Attributes:
        compiled: whether code was compiled inside the context.
    """

    def __init__(
        self,
        set_tag: Callable[[int], None],
        tags: Iterable[Tag] = (),
        expect_sum: Callable[[bool], None] = lambda expected: None,
    ) -> None:
        self.compiled = False
        self._set_tag = set_tag
        self._expect_sum = expect_sum
        self._index: dict[Tag, int] = {tag: number for number, tag in enumerate(tags)}
        self._operators: dict[object, str] = {}
        self._paths = ModulePaths()
        # Maps a graph node's sequence number to the module and the line that made it.
        self._of_node: dict[int, tuple[str, str]] = {}
        self._thread = _Thread()
        self._compiled_call = _CompiledCall()
        self._owner = threading.get_ident()
        self._lock = new_lock()
        self._active = ExitStack()

    @property
    def tags(self) -> tuple[Tag, ...]:
        """All tags so far, by index."""
        return tuple(self._index)

    def __enter__(self) -> "Tagger":
        self._private = _Private()
        self._calls = Calls()
        self._owner = threading.get_ident()
        self._thread.sequence = self._private.sequence()
        with ExitStack() as undo:
            undo.enter_context(origin.listen())
            self._mode = undo.enter_context(OperatorMode(self._around))
            undo.callback(dynamo.register(self))
            undo.callback(suspend_during_captures(self._mode))
            if dynamo.has_compiled():
                from pgmo.profiler.tagging import inductor  # Also loads a Python parser.

                undo.callback(inductor.listen(self))
            dynamo.skip(OperatorMode.__exit__)
            if dynamo.inside():
                self.suspend()
            self._active = undo.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._active.close()
        self._set_tag(-1)
        self._forget()

    # --- compiled code --------------------------------------------------------------------------

    def suspend(self) -> None:
        """Stop observing the thread while it runs compiled code; see `dynamo.Observer`."""
        if not self._mode.suspend():
            return  # This thread is not observed.
        module, phase, line = self._where()
        self._compiled_call.number = self._number(
            Tag(module, COMPILED, _compiled_phase(phase), line)
        )
        self._set_tag(self._compiled_call.number)
        self._compiled_call.place = module, line

    def resume(self) -> None:
        """Resume observing the thread; see `dynamo.Observer`."""
        place = self._compiled_call.place
        self._compiled_call.place, self._compiled_call.number = None, -1
        if place is None:
            return
        self._set_tag(-1)
        if self._mode.restore():
            # Nodes made by the compiled code belong to its module, not to the next one.
            self._note_nodes(place)

    def compiling(self) -> None:
        """Stop tagging for good; see `dynamo.Observer`."""
        self.compiled = True
        self._mode.__exit__(None, None, None)

    # --- kernels of inductor --------------------------------------------------------------------

    def kernels_begin(self) -> None:
        """Note the module and phase of the kernels; see `inductor.KernelListener`."""
        module, phase, line = self._where()
        self._thread.running.append((module, _compiled_phase(phase), line))

    def kernel(self, origin: "KernelOrigin") -> None:
        """Tag the next requests with the kernel; see `inductor.KernelListener`."""
        if self._thread.running:  # Otherwise the call began before this tagger listened.
            module, phase, line = self._thread.running[-1]
            tag = Tag(module, origin.name, phase, origin.file or line, origin.stack)
            self._set_tag(self._number(tag))

    def kernels_end(self) -> None:
        """Restore the thread's previous tag; see `inductor.KernelListener`."""
        if self._thread.running:
            self._thread.running.pop()
        self._set_tag(self._compiled_call.number)

    def _forget(self) -> None:
        # Keep only the tags, so that a reader of tags does not keep the program's modules alive.
        self._operators = {}
        self._paths = ModulePaths()
        self._of_node = {}
        self._thread = _Thread()

    # --- operators ------------------------------------------------------------------------------

    def _around(self, operator: Any, arguments: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if self._thread.running:
            return run()  # A kernel in a backward pass already has its tag.
        name = self._operators.get(operator)
        if name is None:
            name = self._operators.setdefault(operator, _name_of(operator))
        if not name:
            return (
                run()
            )  # In-place operators request no memory; they are half of an optimizer's step.
        module, phase, line = self._where()
        in_place = name == ADD and phase is BACKWARD and _has_storage_alone(arguments[0])
        if in_place:
            name = ADD_IN_PLACE
            self._expect_sum(True)
        self._set_tag(self._number(Tag(module, name, phase, line)))
        try:
            return run()
        finally:
            self._set_tag(-1)
            if in_place:
                self._expect_sum(False)

    def _number(self, tag: Tag) -> int:
        number = self._index.get(tag)
        if number is None:
            with self._lock:  # The backward pass of each device has its own thread.
                number = self._index.setdefault(tag, len(self._index))
        return number

    def _where(self) -> tuple[str, str, str]:
        """Return module, phase and line of the operator that is about to run on this thread."""
        backward = self._private.in_backward()
        modules, optimizer, line = self._calls.running()
        module = self._paths.innermost(modules)
        if module:
            # A module called during the backward pass is recomputed by a checkpoint.
            phase = RECOMPUTE if backward else FORWARD
        elif backward:
            (module, line), phase = self._of_running_node(), BACKWARD
        else:
            module, phase = optimizer, OPTIMIZER if optimizer else OTHER
        made = self._note_nodes((module, line))
        if made and phase is OTHER:
            phase = FORWARD  # A loss without a module belongs to the forward pass.
        declared = origin.declared()
        if declared is not None:  # A captured step enters no modules, so it declares them.
            module, phase = ".".join(filter(None, (module, declared[0]))), declared[1]
        return module, phase, line

    def _note_nodes(self, place: tuple[str, str]) -> int:
        """Attribute the graph nodes made on this thread since the last call, and count them."""
        count = self._private.sequence()
        if count is None:
            return 0
        before = self._thread.sequence
        self._thread.sequence = count
        if before is None:
            return (
                0  # The origin of the first nodes is unknown, because the thread was not observed.
            )
        for number in range(before, count):
            if threading.get_ident() == self._owner:
                self._of_node[number] = place
            else:
                self._of_node.setdefault(number, place)  # Other threads number separately.
        return count - before

    def _of_running_node(self) -> tuple[str, str]:
        """Return the module and the line that made the graph node which runs on this thread."""
        node = self._private.node()
        if node is None:
            return "", ""
        variable = getattr(node, "variable", None)
        if variable is not None:  # The node accumulates a gradient.
            return self._paths.owner(variable), ""
        sequence = getattr(node, "_sequence_nr", None)
        return self._of_node.get(sequence(), ("", "")) if callable(sequence) else ("", "")


def _name_of(operator: Any) -> str:
    """Return an operator's name for reports, or "" for in-place pointwise operators.

    These request no memory. In-place sums keep their name, because the profile needs it.
    """
    import torch

    name = str(getattr(operator, "overloadpacket", operator))
    in_place = name.endswith("_") and torch.Tag.pointwise in getattr(operator, "tags", ())
    return "" if in_place and name != ADD_IN_PLACE else name


def _compiled_phase(phase: str) -> str:
    """Return the phase of compiled code. An unknown phase counts as the forward pass."""
    return FORWARD if phase is OTHER else phase


def _has_storage_alone(tensor: Any) -> bool:
    """Return whether a tensor fills its storage, which autograd requires for adding in place."""
    import torch

    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return False
    return tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


class _Private:
    """Access to private functions of torch; a missing function has no effect."""

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
