"""Graph captured by Dynamo, with exchangeable plans.

AOTAutograd compiles a graph once. The compiled autograd function saves all results of the forward
runner that are no outputs, and passes them to the backward runner. So another plan needs no new
capture, only other runners. One saved value is a marker: an empty tensor whose shape holds the
number of the plan. The backward pass reads this number.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, fx

from pgmo.error_frames import clear_backward_frames
from pgmo.profiler.tagging.dynamo import watched
from pgmo.recompute.capture import compat
from pgmo.recompute.capture.absent import tangents
from pgmo.recompute.capture.compat import autograd_nodes, flatten, is_tangent
from pgmo.recompute.capture.graphs import graph_module
from pgmo.recompute.capture.repeated.template import NotAlikeError
from pgmo.recompute.compiled.blocks import RepeatedSegments
from pgmo.recompute.compiled.dry_run.objections import is_sum
from pgmo.recompute.compiled.dynamo.autograd_functions import with_autograd_functions
from pgmo.recompute.planners.evaluator import Choice, Evaluator
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.shapes import Shapes
from pgmo.recompute.runtime import backward_passes
from pgmo.recompute.runtime.announce import Interpreter, announced
from pgmo.recompute.runtime.decide import PlannedStep, Settings
from pgmo.recompute.runtime.execute import StepCompiler

if TYPE_CHECKING:
    from pgmo.recompute.compiled.dry_run.discovery import Discovery

GradientFlags = tuple[bool, ...]
"""One flag for each output with a derivative: True if the output gets a gradient."""

Choose = Callable[["CompiledGraph"], int | None]
"""Function that returns the number of the plan for a graph's next call; None to run the captured
module without any plan."""


class ThreadStep(threading.local):
    """State of a model's step on the current thread.

    Captured graphs refer to this object and not to the model, because Dynamo keeps the graphs alive
    longer than the model.

    Attributes:
        observer: runs graphs in a dry run; None in other steps.
        choose: chooses the plan of a graph's next call.
        number: number of the plan that runs next.
    """

    def __init__(self) -> None:
        self.observer: Discovery | None = None
        self.choose: Choose = lambda graph: graph.unplanned
        self.number = 0


class CompiledGraph:
    """Graph captured by Dynamo.

    Attributes:
        module: the graph.
        tangents: number of outputs with a derivative.
        plans: runners of the forward and the backward pass of each plan, by number.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        inputs: Sequence[Any],
        settings: Settings,
        thread_step: ThreadStep,
    ) -> None:
        self.module = module
        self._settings, self._thread_step = settings, thread_step
        self._joint: fx.GraphModule | None = None
        self._outputs = self.tangents = 0
        self._bare: fx.GraphModule | None = None
        # On a GPU, backward passes run in autograd's threads, whose `_thread_step` has no observer.
        self._observer: Discovery | None = None
        self._planned: dict[GradientFlags | None, StepCompiler] = {}
        self.plans: list[tuple[compat.Runner, compat.Runner]] = []
        self._unplanned: int | None = None
        self._blocks: RepeatedSegments | None = None
        run = self._with_repeated_blocks(inputs)
        if run is None:
            self._blocks = None
            run = self._compiled(module, inputs)
        self._run = run

    def _with_repeated_blocks(self, inputs: Sequence[Any]) -> Callable[..., Any] | None:
        """Compile the graph, with only one of its repeated blocks traced.

        Return None if there are no such blocks, or for any error. If the blocks are not the cause,
        the error is raised again when the whole graph is compiled.
        """
        try:
            self._blocks = RepeatedSegments(self.module)
            return self._compiled(self._blocks.module, inputs) if self._blocks else None
        except Exception:
            return None

    def _compiled(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        compiler = compat.backend(self._partition, self._forward_runner, self._backward_runner)
        made: Callable[..., Any] = compiler(with_autograd_functions(module), list(inputs))
        return made

    @property
    def is_trained(self) -> bool:
        """Return whether the graph has a backward pass."""
        return self._joint is not None

    @property
    def unplanned(self) -> int:
        """Number of the plan that drops all candidates, for steps whose plan lacks this graph."""
        if self._unplanned is None:
            self._unplanned, _ = self.add(
                replace(self._settings, budget="min", planner=_drop_all, rate=None, shapes=Shapes())
            )
        return self._unplanned

    def __call__(self, *arguments: Any) -> Any:
        """Call the graph."""
        if not self.is_trained:
            return self._run(*arguments)
        thread_step = self._thread_step
        number = thread_step.choose(self)
        if number is None:
            return self.module(*arguments)
        thread_step.number = number
        results = self._run(*arguments)
        context = _compiled_context([one for one in results if isinstance(one, Tensor)])
        if context is not None:
            context.set_materialize_grads(False)  # Absent gradients are None, not zeros.
            if thread_step.observer is not None:
                thread_step.observer.ran(context)
        return results

    def _partition(
        self, joint: fx.GraphModule, _inputs: object, *, num_fwd_outputs: int, **_more: object
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Store the joint graph; return forward and backward graphs with its inputs and results."""
        if self._blocks:
            self._blocks.expand(joint)
        self._joint, self._outputs = joint, num_fwd_outputs
        self.tangents = len(tangents(joint))
        forward = _forward_alone(joint, num_fwd_outputs)
        self._bare = forward
        return forward, _backward_interface(joint, num_fwd_outputs)

    def _forward_runner(self, module: fx.GraphModule, _inputs: object) -> compat.Runner:
        if not self.is_trained:
            if self._blocks:
                raise NotAlikeError("a graph without a backward pass has no joint graph to expand")
            return announced(module)
        return compat.mark_boxed(self._forward)

    def _backward_runner(self, _module: fx.GraphModule, _inputs: object) -> compat.Runner:
        return compat.mark_boxed(self._backward)

    def _forward(self, arguments: list[Any]) -> list[Any]:
        thread_step = self._thread_step
        if thread_step.observer is not None:
            self._observer = thread_step.observer
            return thread_step.observer.forward(self, arguments)
        number = thread_step.number
        with watched():
            results = list(self.plans[number][0](arguments))
        return [*results, marker(number)]

    def _backward(self, arguments: list[Any]) -> list[Any]:
        place = len(arguments) - self.tangents - 1
        is_observed, number = read_marker(arguments.pop(place))
        if is_observed:
            assert self._observer is not None
            return self._observer.backward(self, number, arguments)
        gradients: list[Any] = self.plans[number][1](arguments)
        return gradients

    def bare(self, arguments: list[Any]) -> list[Any]:
        """Run the forward pass without saving anything."""
        assert self._bare is not None
        # Two or three dry runs are not worth the time to generate code.
        results: list[Any] = list(Interpreter(self._bare).boxed_run(arguments))
        return results

    def gradients(self) -> list[Tensor | None]:
        """Return the example value of each input's gradient, or None."""
        found = self._gradients()
        return [one.meta["val"] if isinstance(one, fx.Node) else None for one in found]

    def sums(self) -> list[bool]:
        """Return, for each input, whether its gradient is the result of an addition."""
        return [is_sum(one) for one in self._gradients()]

    def _gradients(self) -> list[object]:
        assert self._joint is not None
        (last,) = self._joint.graph.find_nodes(op="output")
        return flatten(last.args)[0][self._outputs :]

    def planned(self, settings: Settings) -> PlannedStep:
        """Return the graph's plan, cached by `settings.differentiated` unless `settings.anew`."""
        flags = settings.differentiated
        if settings.anew or flags not in self._planned:
            self._planned[flags] = self._compiler(settings)
        return self._planned[flags].planned

    def add_choice(self, choice: Choice, settings: Settings) -> int:
        """Add a plan for a choice of operations of `planned(settings).finest()`.

        Returns:
            The number of the plan.
        """
        return self._add(self._planned[settings.differentiated].chosen(choice))

    def add(self, settings: Settings) -> tuple[int, PlannedStep]:
        """Plan the graph; return the number of the plan, and the plan."""
        step = self._compiler(settings)
        return self._add(step), step.planned

    def _compiler(self, settings: Settings) -> StepCompiler:
        assert self._joint is not None
        return StepCompiler.of(self._joint, self._outputs, settings)

    def _add(self, step: StepCompiler) -> int:
        self.plans.append(step.runners())
        return len(self.plans) - 1


def _drop_all(graph: Graph, _budget: int | Literal["min"]) -> Choice:
    return Evaluator(graph).candidate(frozenset(graph.candidates()), "all that can be dropped")


def _compiled_context(results: Sequence[Tensor]) -> Any:
    """Return the autograd node of a compiled forward pass, and prepare it for its backward pass.

    `results` may be views of the pass's results. Returns None if autograd did not record the pass.
    """
    for node in autograd_nodes(one.grad_fn for one in results):
        if type(node).__name__ == "CompiledFunctionBackward":
            metadata: Any = getattr(getattr(node, "_forward_cls", None), "metadata", None)
            if metadata is not None:
                # AOTAutograd would refuse `retain_graph`, because a compiler may reuse the memory
                # of donated inputs. Runners of pgmo reuse no memory of inputs.
                metadata.bw_donated_idxs = []
            clear_backward_frames(type(node))
            backward_passes.attach()
            return node
    return None


def marker(number: int, is_observed: bool = False) -> Tensor:
    """Return an empty tensor whose shape holds both arguments.

    `is_observed`: whether a dry run observes the pass.
    """
    return torch.empty((int(is_observed), number, 0))


def read_marker(made: Tensor) -> tuple[bool, int]:
    """Return whether a dry run observes the pass of a marker, and the marker's number."""
    return bool(made.shape[0]), int(made.shape[1])


def _backward_interface(joint: fx.GraphModule, outputs: int) -> fx.GraphModule:
    """Return a backward graph without operators, which returns a tangent as each gradient.

    Gradients that are None stay None: AOTAutograd detaches inputs without a gradient.
    """
    graph = fx.Graph()
    given = [graph.node_copy(node) for node in tangents(joint)]
    (last,) = joint.graph.find_nodes(op="output")
    graph.output(tuple(one if one is None else given[0] for one in last.args[0][outputs:]))
    return graph_module(joint, graph)


def _forward_alone(joint: fx.GraphModule, outputs: int) -> fx.GraphModule:
    """Return the forward pass of a joint graph, without results other than the outputs."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in joint.graph.nodes:
        if node.op == "output":
            results = fx.node.map_arg(tuple(node.args[0][:outputs]), copies.__getitem__)
            graph.output(results)
        elif not is_tangent(node) and not any(one not in copies for one in node.all_input_nodes):
            copies[node] = graph.node_copy(node, copies.__getitem__)
    module = graph_module(joint, graph)
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not node.users and compat.is_backward(node):
            graph.erase_node(node)
    graph.eliminate_dead_code()
    return module
