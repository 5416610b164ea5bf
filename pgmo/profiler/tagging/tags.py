"""Tagging of blocks with module, operator, phase and line, through a thread-local number.

Blocks are requested deep inside operators, where no Python code may run. So a thread-local number,
which the allocator reads, is set around each operator. This module maps the numbers to tags:

    model(x) -> GPT.forward -> GPT.mlp.forward -> aten.addmm: set_tag(17) [requests ...] set_tag(-1)
                       17 = Tag("GPT.mlp", "aten.addmm", "forward", "model.py:54 in forward")

Modules and optimizers are found by their calls on the stack, because hooks would be visible to the
program and its compiler. In the backward pass, no module is called. An operator then belongs to the
module and line that created the running graph node, which its sequence number identifies. Module
and line are "" if torch lacks the private function that returns the running node.

Compiled code is not inspected (see `dynamo`) and counts as one operator, "torch.compile". For code
of inductor, marks in the generated code name the kernel instead (see `inductor`).
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgmo.locks import new_lock
from pgmo.profiler.tag import Tag
from pgmo.profiler.tagging import dynamo, origin
from pgmo.profiler.tagging.calls import Calls
from pgmo.profiler.tagging.module_paths import ModulePaths
from pgmo.profiler.tagging.operators import (
    OperatorAnswer,
    Operators,
    report_name,
    requests_nothing,
)

if TYPE_CHECKING:
    from pgmo.profiler.tagging.inductor import KernelOrigin

FORWARD, BACKWARD, OPTIMIZER, OTHER = "forward", "backward", "optimizer", "other"
RECOMPUTE = "recompute"
COMPILED = "torch.compile"


class _Thread(threading.local):
    def __init__(self) -> None:
        self.sequence: int | None = None  # Number of graph nodes made so far on this thread.
        self.place: tuple[str, str] | None = None  # Module and line of the latest operator.
        self.number = -1  # Tag number of the latest operator if its phase is unknown; -1 if known.
        # Module, phase and line of calls of generated code.
        self.running: list[tuple[str, str, str]] = []


class _CompiledCall(threading.local):
    """Module and line of the compiled code that runs on a thread, and the tag number meanwhile.

    This object outlives the tagger, because the number must be reset when the compiled call ends.
    """

    place: tuple[str, str] | None = None
    number: int = -1


class Tagger(AbstractContextManager["Tagger"]):
    """Context that tags every block requested in it, without changing results or requests.

    A tagger slows each operator down by a few microseconds, so it is meant for one recorded
    iteration. Another thread may close it. A closed tagger keeps the tags, but no reference to a
    module. Tagging stops at the first compilation, because an iteration with a compilation differs
    from all later iterations. A process has at most one open tagger.

    Args:
        set_tag: called on the requesting thread with an index into `tags`, or -1 for none.
        operators: operators that torch runs.
        tags: tags of an earlier tagger whose numbers are still in use.

    Attributes:
        compiled: whether code was compiled inside the context.
    """

    def __init__(
        self,
        set_tag: Callable[[int], None],
        operators: Operators,
        tags: Iterable[Tag] = (),
    ) -> None:
        self.compiled = False
        self._set_tag = set_tag
        self._operators = operators
        self._tags = list(tags)
        self._index: dict[Tag, int] = {tag: number for number, tag in enumerate(self._tags)}
        # Results of `report_name` and `requests_nothing`, by names of operators and overloads.
        self._names: dict[tuple[str, str], tuple[str, bool]] = {}
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
        return tuple(self._tags)

    def __enter__(self) -> "Tagger":
        self._private = _Private()
        self._calls = Calls()
        self._owner = threading.get_ident()
        self._thread.sequence = self._private.sequence()
        with ExitStack() as undo:
            undo.enter_context(origin.listen())
            undo.callback(self._operators.ignore)
            self._operators.observe(self._begin)
            undo.callback(dynamo.register(self))
            dynamo.skip(self._operators.ignore)  # `compiling` calls it while Dynamo compiles
            if dynamo.has_compiled():
                from pgmo.profiler.tagging import inductor  # Also loads a Python parser.

                undo.callback(inductor.listen(self))
            if dynamo.inside():
                self.suspend()
            self._active = undo.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._active.close()
        self._set_tag(-1)
        # Keep only the tags, so that a reader of tags does not keep the program's modules alive.
        self._names = {}
        self._paths = ModulePaths()
        self._of_node = {}
        self._thread = _Thread()

    # --- compiled code --------------------------------------------------------------------------

    def suspend(self) -> None:
        """Stop observing the thread while it runs compiled code; see `dynamo.Observer`."""
        if threading.get_ident() != self._owner and not self._private.in_backward():
            return  # This thread is not observed.
        self._operators.suspend(True)
        self._note_nodes(self._thread.place)
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
        self._operators.suspend(False)
        # Nodes made by the compiled code belong to its module, not to the module called next.
        self._note_nodes(place)

    def compiling(self) -> None:
        """Stop tagging permanently; see `dynamo.Observer`."""
        self.compiled = True
        self._operators.ignore()

    # --- kernels of inductor --------------------------------------------------------------------

    def kernels_begin(self) -> None:
        """Note the module and phase of the kernels; see `inductor.KernelListener`."""
        self._note_nodes(self._thread.place)
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

    # --- operators ------------------------------------------------------------------------------

    def _begin(self, name: str, overload: str, nodes: int) -> OperatorAnswer:
        """Tag the requests of an operator, which is about to run on this thread."""
        if self._thread.running:
            return OperatorAnswer.HIDDEN  # A kernel in a backward pass already has its tag.
        known = self._names.get((name, overload))
        if known is None:
            known = report_name(name, overload), requests_nothing(name, overload)
            self._names[name, overload] = known
        reported, requests_none = known
        if not reported:
            return OperatorAnswer.NEVER
        if requests_none and not self._private.records():
            return OperatorAnswer.WITH_GRAD
        thread = self._thread
        if self._note_nodes(thread.place, nodes) and thread.number >= 0:
            # A loss without a module belongs to the forward pass.
            self._tags[thread.number] = replace(self._tags[thread.number], phase=FORWARD)
        module, phase, line = self._where()
        thread.place = module, line
        if self._note_nodes(thread.place) and phase is OTHER:
            phase = FORWARD  # The operator is in a custom autograd function, which has a node.
        number = self._number(Tag(module, reported, phase, line))
        thread.number = number if phase is OTHER else -1
        self._set_tag(number)
        return OperatorAnswer.REPORTED

    def _number(self, tag: Tag) -> int:
        number = self._index.get(tag)
        if number is None:
            with self._lock:  # The backward pass of each device has its own thread.
                number = self._index.setdefault(tag, len(self._tags))
                if number == len(self._tags):
                    self._tags.append(tag)
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
        declared = origin.declared()
        if declared is not None:  # A captured step enters no modules, so it declares them.
            module, phase = ".".join(filter(None, (module, declared[0]))), declared[1]
        return module, phase, line

    def _note_nodes(self, place: tuple[str, str] | None, until: int | None = None) -> int:
        """Attribute graph nodes made on this thread since the last call.

        Args:
            place: module and line that made the nodes; None if unknown.
            until: number of the first later node, -1 for none; None for all nodes made so far.

        Returns:
            The number of nodes.
        """
        thread, count = self._thread, self._private.sequence() if until is None else until
        before = thread.sequence
        if count is None or count <= (-1 if before is None else before):
            return 0
        thread.sequence = count
        if before is None or place is None:
            return 0
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


def _compiled_phase(phase: str) -> str:
    """Return the phase of compiled code. An unknown phase counts as the forward pass."""
    return FORWARD if phase is OTHER else phase


class _Private:
    """Access to private functions of torch. If torch lacks one, a method returns False or None."""

    def __init__(self) -> None:
        import torch

        core: Any = torch._C
        autograd = getattr(core, "_autograd", None)
        self.records: Callable[[], bool] = torch.is_grad_enabled
        self._task = getattr(core, "_current_graph_task_id", None)
        self._node = getattr(core, "_current_autograd_node", None)
        self._sequence = getattr(autograd, "_get_sequence_nr", None)

    def in_backward(self) -> bool:
        return self._task is not None and self._task() != -1

    def node(self) -> Any:
        return self._node() if self._node else None

    def sequence(self) -> int | None:
        return int(self._sequence()) if self._sequence else None
