"""Who asks for each block: module, operator and phase, in a thread-local number while recording.

Blocks are requested deep inside of operators, where no Python may run. So around each operator a
number is left where the allocator finds it, and the number's meaning is kept here:

    model(x) -> hook pushes "GPT.mlp" -> aten.addmm: set_tag(17) [requests ...] set_tag(-1)
                                             17 = Tag("GPT.mlp", "aten.addmm", "forward")

In the backward pass no module is entered. Its operators are attributed to the module that made the
graph node that is running, found by the node's sequence number. Where torch lacks one of the
private functions that this needs, module is "" there.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any

from pgmo.profiler import origin
from pgmo.profiler.module_paths import ModulePaths
from pgmo.profiler.operator_mode import OperatorMode
from pgmo.profiler.tag import Tag

FORWARD, BACKWARD, OPTIMIZER, OTHER = "forward", "backward", "optimizer", "other"
RECOMPUTE = "recompute"


class _Thread(threading.local):
    """What a thread is doing."""

    def __init__(self) -> None:
        self.modules: list[tuple[object, str]] = []
        self.optimizers: list[str] = []
        self.sequence: int | None = None  # graph nodes made so far on this thread


class Tagger(AbstractContextManager["Tagger"]):
    """Names the origin of every block requested while it is active. Changes no result.

    Slows operators down by some microseconds each, so it is meant for one recorded iteration. The
    program may enter and leave dispatch modes of its own meanwhile, and another thread may close
    it. Once closed it has the tags, and no reference to a module.

    Args:
        set_tag: called on the requesting thread with an index into `tags`, or -1 for none.

    Example:
        >>> with Tagger(_core.set_tag) as tagger:  # doctest: +SKIP
        ...     train_one_iteration()
        >>> tagger.tags[0]  # doctest: +SKIP
        Tag(module='Net.conv1', op='aten.convolution', phase='forward')
    """

    def __init__(self, set_tag: Callable[[int], None]) -> None:
        self._set_tag = set_tag
        self._index: dict[Tag, int] = {}
        self._operators: dict[object, str] = {}
        self._paths = ModulePaths()
        self._of_node: dict[int, str] = {}  # sequence number of a graph node -> module
        self._thread = _Thread()
        self._owner = threading.get_ident()
        self._lock = threading.Lock()
        self._active = ExitStack()

    @property
    def tags(self) -> tuple[Tag, ...]:
        """The tags given so far, by index."""
        return tuple(self._index)

    def __enter__(self) -> "Tagger":
        from torch.nn.modules import module
        from torch.optim import optimizer

        self._private = _Private()
        self._owner = threading.get_ident()
        self._thread.sequence = self._private.sequence()
        with ExitStack() as undo:
            for handle in (
                module.register_module_forward_pre_hook(self._enter_module),
                module.register_module_forward_hook(self._leave_module, always_call=True),
                optimizer.register_optimizer_step_pre_hook(self._enter_optimizer),
                optimizer.register_optimizer_step_post_hook(self._leave_optimizer),
            ):
                undo.callback(handle.remove)
            undo.enter_context(origin.listen())
            undo.enter_context(OperatorMode(self._around))
            self._active = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._active.close()
        self._set_tag(-1)
        self._forget()

    def _forget(self) -> None:
        # All but the tags: whoever reads them later must not keep the program's modules alive.
        self._operators = {}
        self._paths = ModulePaths()
        self._of_node = {}
        self._thread = _Thread()

    # --- operators ------------------------------------------------------------------------------

    def _around(self, operator: Any, run: Callable[[], Any]) -> Any:
        module, phase = self._where()
        name = self._operators.get(operator)
        if name is None:
            packet = getattr(operator, "overloadpacket", operator)
            name = self._operators.setdefault(operator, str(packet))
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
        thread = self._thread
        backward = self._private.in_backward()
        if thread.modules:
            # Entered during the backward pass: a checkpoint computes its forward part again.
            module, phase = thread.modules[-1][1], RECOMPUTE if backward else FORWARD
        elif backward:
            module, phase = self._of_running_node(), BACKWARD
        elif thread.optimizers:
            module, phase = thread.optimizers[-1], OPTIMIZER
        else:
            module, phase = "", OTHER
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

    # --- modules and optimizers -----------------------------------------------------------------

    def _enter_module(self, module: Any, _args: object) -> None:
        stack = self._thread.modules
        self._note_nodes(stack[-1][1] if stack else "")
        stack.append((module, self._paths.enter(module, stack[-1][1] if stack else None)))

    def _leave_module(self, module: Any, _args: object, _result: object) -> None:
        stack = self._thread.modules
        for depth in range(len(stack) - 1, -1, -1):
            if stack[depth][0] is module:
                self._note_nodes(stack[-1][1])
                del stack[depth:]  # with whatever an exception left above it
                return

    def _enter_optimizer(self, optimizer: object, _args: object, _kwargs: object) -> None:
        self._thread.optimizers.append(type(optimizer).__name__)

    def _leave_optimizer(self, optimizer: object, _args: object, _kwargs: object) -> None:
        # All that were entered inside of it are gone too: an exception runs no post-hook.
        stack = self._thread.optimizers
        name = type(optimizer).__name__
        if name in stack:
            del stack[stack.index(name) :]


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
