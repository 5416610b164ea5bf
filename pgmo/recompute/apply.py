"""`pgmo.recompute`: makes a model whose steps stay within a memory budget."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pgmo.cards import Card, find
from pgmo.errors import BudgetError, OptionError
from pgmo.recompute.calls.refusals import refuse_lazy, refuse_wrappers
from pgmo.recompute.calls.signature import Arguments
from pgmo.recompute.capture.compat import flatten, refuse_old_versions, storage_key
from pgmo.recompute.card_budget import CardBudget, context_of, optimizer_needs
from pgmo.recompute.compiled.model import CompiledModel
from pgmo.recompute.outcome import RecomputePlan
from pgmo.recompute.planners.budget import parse_budget
from pgmo.recompute.planners.offload.transfers import parse_link
from pgmo.recompute.planners.shapes import Shapes
from pgmo.recompute.runtime.decide import Planner, Settings
from pgmo.recompute.runtime.offload.offloaded_state import keep_state_on_host
from pgmo.recompute.runtime.twin import original, twin
from pgmo.units import parse_bytes
from pgmo.wrapped_optimizers import unwrapped

M = TypeVar("M", bound=nn.Module)

_NOT_GIVEN = object()
"""Default of example inputs, because None is a possible argument of a model."""


def recompute(
    model: M,
    example_inputs: object = _NOT_GIVEN,
    budget: int | float | str | None = "min",
    *,
    planner: Planner | None = None,
    measure: bool = True,
    card: str | Card | None = None,
    optimizer: Optimizer | None = None,
    beside: int | str = 0,
    offload: str | float | None = None,
    state: bool = False,
    whole: bool = False,
) -> tuple[M, RecomputePlan]:
    """Return a model that drops activations and computes them again, so that a step fits a budget.

    Dynamo and AOTAutograd capture the forward and backward pass of the example call, and a planner
    chooses which values to drop. The returned model runs the same operators on the same numbers, so
    losses, gradients and buffers are bit-identical. Within a step, operators with random numbers or
    side effects never run twice.

    The budget limits the peak of the bytes that a step allocates from the start of the model's
    forward pass to the end of its backward pass: activations, results, workspaces, and gradients,
    also of parameters. Parameters, buffers, inputs and the optimizer's state are excluded. Code
    outside of the model, such as a loss, is not planned: put the loss into the forward method.

    Args:
        model: a module, which stays usable. It shares all attributes with the returned model:
            `eval()` on one model affects both, and an optimizer may get the parameters of either.
        example_inputs: arguments of a call: a tuple of positional arguments, a dictionary of
            keyword arguments, or one argument. By default the first call with gradients enabled is
            captured, and raises the errors of planning. Each call with other shapes, dtypes or
            modes, such as `eval()`, is captured and planned when it first occurs.
        budget: bytes, such as `"8 GiB"`; a share of the given model's peak, such as `"60%"` or 0.6;
            `"min"` for the smallest peak found with an overhead of at most one forward pass; None
            to recompute nothing.
        planner: a function that returns a `Choice` for a `Graph` and a budget; pgmo's by default.
        measure: whether to run operators alone to learn their workspaces, and to measure a real
            step. pgmo warns if the peaks of two steps differ from the prediction by more than 2 %.
            If False, predictions exclude workspaces, and the memory of code between graphs.
        card: instead of a budget, a card's name such as "RTX 4090", or its size such as "16GiB".
            The budget is the card's memory without parameters, buffers, example inputs, the state
            of `optimizer`, CUDA's context, `beside`, and 1 % for fragmentation.
        optimizer: with `card`: the optimizer of the parameters; its state need not exist yet.
        beside: with `card`: bytes to keep free, such as "2 GiB" for a second model.
        offload: link to the host: "pcie3", "pcie4", "pcie5", or bytes per second, such as 20e9 or
            "20 GB/s". pgmo may then copy values to the host and back instead of computing them
            again. On a GPU, copies use a stream of their own and pinned host memory.
        state: with `card`, `optimizer`, `offload` and example inputs: whether the optimizer's state
            may be on the host while the model runs. pgmo puts the state there if this lowers the
            overhead, or no plan fits otherwise. `optimizer.step()` copies it to the card and back.
        whole: whether to refuse a model whose step is not a single graph. If False, all graphs
            share the budget, and other code runs unchanged.

    Returns:
        The model that recomputes, and the plan.

    Raises:
        BudgetError: if no plan fits the budget (the message has the smallest peak found), or if the
            card or the host has too little memory.
        GraphError: if the model cannot be captured, no captured result needs gradients, or the step
            is not a single graph with `whole`.
        OptionError: if an option is invalid, `model` is not a module, or PyTorch is older than
            2.11.

    Example:
        >>> model, plan = pgmo.recompute(model, batch, budget="8 GiB")  # doctest: +SKIP
        >>> print(plan.explain())  # doctest: +SKIP

    Source:
        Kusumoto et al., "A Graph Theoretic Framework of Recomputation Algorithms for
        Memory-Efficient Backpropagation" (2019), arXiv 1905.11722, for the problem;
        docs/design/recompute.md for the search and the schedule.
    """
    options = RecomputeOptions(
        budget, planner, measure, card, optimizer, beside, offload, state, whole
    )
    arguments = None if example_inputs is _NOT_GIVEN else call_of(example_inputs)
    made, plan = planned(model, arguments, options, Shapes())
    settle_state(options, plan)
    return made, plan


@dataclass(frozen=True)
class RecomputeOptions:
    """Options of `recompute`, which documents them. `optimizer` loses the wrappers of libraries."""

    budget: int | float | str | None = "min"
    planner: Planner | None = None
    measure: bool = True
    card: str | Card | None = None
    optimizer: Optimizer | None = None
    beside: int | str = 0
    offload: str | float | None = None
    state: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        if self.optimizer is not None:
            object.__setattr__(self, "optimizer", unwrapped(self.optimizer))


def settle_state(options: RecomputeOptions, plan: RecomputePlan) -> None:
    """Move the state of the optimizer, if one is given, to the host or back, as planned."""
    if options.optimizer is not None:
        keep_state_on_host(options.optimizer, wanted=plan.state_bytes > 0)


def planned(
    model: M,
    call: Arguments | None,
    options: RecomputeOptions,
    shapes: Shapes,
    *,
    try_on_card: bool = True,
) -> tuple[M, RecomputePlan]:
    """Return a recomputing model and its plan within a budget.

    Args:
        model: the model.
        call: arguments of the call to plan; None to plan when the model is first called.
        options: options of `recompute`, which documents the errors, too.
        shapes: choices of earlier plans. If one of these choices fits the budget, no search runs.
        try_on_card: with `options.state`, whether to also plan with the state on the card.
    """
    refuse_old_versions()
    if not isinstance(model, nn.Module):
        raise OptionError(f"model is a {type(model).__name__}; give a torch.nn.Module")
    rate = None if options.offload is None else parse_link(options.offload)
    refuse_lazy(original(model))
    card_budget = _card_budget(model, _resident(model, call), options)
    if not options.state:
        return _within(model, call, options, shapes, card_budget)
    if card_budget is None or card_budget.optimizer is None or rate is None or call is None:
        raise OptionError("state=True needs card=, optimizer=, offload= and example inputs")
    on_device = None
    if try_on_card:
        try:
            on_device = _within(model, call, options, shapes, card_budget)
        except BudgetError:
            try_on_card = False
    if on_device is not None:
        seconds = on_device[1].overhead * on_device[1].graph.forward_cost
        if seconds <= 2 * card_budget.optimizer.state / rate:
            return on_device
        shapes = Shapes()  # With the old shapes, the plan just found would be returned again.
    try:
        offloaded = _within(model, call, options, shapes, replace(card_budget, state_on_host=True))
    except BudgetError:
        if on_device is None:
            raise
        return on_device
    return min((one for one in (on_device, offloaded) if one), key=lambda one: one[1].overhead)


def _within(
    model: M,
    call: Arguments | None,
    options: RecomputeOptions,
    shapes: Shapes,
    card_budget: CardBudget | None,
) -> tuple[M, RecomputePlan]:
    """Plan a model for the memory left on a card, or for `options.budget` if no card is given."""
    settings = Settings(
        parse_budget(options.budget if card_budget is None else card_budget.left),
        options.planner,
        None if options.offload is None else parse_link(options.offload),
        options.measure,
        shapes=shapes,
        whole=options.whole,
    )
    model = original(model)  # A model that already recomputes is planned again.
    refuse_wrappers(model)
    recomputing = CompiledModel(model, settings)
    if call is not None:
        with torch.enable_grad():
            recomputing.capture(*call[0], **call[1])
    resident = _resident(model, call)
    return _with_recomputation(recomputing, model), RecomputePlan(
        recomputing, resident, card_budget
    )


def _card_budget(model: nn.Module, resident: int, options: RecomputeOptions) -> CardBudget | None:
    optimizer = options.optimizer
    if options.card is None:
        if optimizer is not None or options.beside:
            raise OptionError("optimizer= and beside= are used only with card=")
        return None
    if options.budget != "min":
        raise OptionError("give a card or a budget, not both: the budget is what the card has left")
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        raise OptionError(
            f"optimizer is a {type(optimizer).__name__}; give a torch.optim.Optimizer"
        )
    trained = [one for one in model.parameters() if one.requires_grad]
    return CardBudget(
        find(options.card),
        context_of(one.device for one in model.parameters()),
        resident,
        # Bytes of tensors, not of storages: cuDNN's LSTM has all its weights in one storage.
        sum(one.nbytes for one in trained),
        None if optimizer is None else optimizer_needs(optimizer),
        parse_bytes(options.beside),
    )


def _with_recomputation(recomputing: CompiledModel, model: M) -> M:
    settings = replace(recomputing.settings, shapes=Shapes())  # Plans are not pickled.
    return twin(model, recomputing, functools.partial(_recompute_copy, settings))


def _recompute_copy(settings: Settings, model: M) -> M:
    """Return a copied or unpickled model with recomputation; its calls are captured anew."""
    return _with_recomputation(CompiledModel(model, replace(settings, shapes=Shapes())), model)


def call_of(example: object) -> Arguments:
    """Return the positional and keyword arguments in the `example_inputs` of `recompute`."""
    if isinstance(example, Mapping):
        return (), {str(key): value for key, value in example.items()}
    if isinstance(example, (tuple, list)):
        return tuple(example), {}
    return (example,), {}


def _resident(model: nn.Module, call: object) -> int:
    tensors = [*model.parameters(), *model.buffers()]
    tensors += [leaf for leaf in flatten(call)[0] if isinstance(leaf, Tensor)]
    storages = {storage_key(one): one.untyped_storage().nbytes() for one in tensors}
    return sum(storages.values())
