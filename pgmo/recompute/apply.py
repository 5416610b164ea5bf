"""`pgmo.recompute`: from a model and a budget to a model that recomputes within the budget."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pgmo.cards import Card, find
from pgmo.errors import BudgetError, OptionError
from pgmo.recompute.calls.refusals import refuse_lazy, refuse_wrappers
from pgmo.recompute.capture.compat import flatten, refuse_old_versions, storage_key
from pgmo.recompute.compiled.model import CompiledModel
from pgmo.recompute.outcome import RecomputePlan
from pgmo.recompute.planners.budget import parse_budget
from pgmo.recompute.planners.offload.transfers import parse_link
from pgmo.recompute.planners.shapes import Shapes
from pgmo.recompute.runtime.decide import Planner, Settings, find_planner
from pgmo.recompute.runtime.offload.sleeping_state import let_state_sleep
from pgmo.recompute.runtime.twin import original, twin
from pgmo.recompute.whole_card import CardBudget, context_of, optimizer_needs
from pgmo.units import parse_bytes
from pgmo.wrapped_optimizers import unwrapped

M = TypeVar("M", bound=nn.Module)

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""

_NOT_GIVEN = object()
"""Default of example inputs: None is a possible argument of a model."""


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
    """Make a model drop activations and compute them again, so that a step fits in a budget.

    `torch.compile`'s front end captures the forward and the backward pass of the example call. The
    planner chooses what to drop. The returned model runs the planned schedule with the same
    operators on the same numbers, so losses, gradients and buffers are bit-identical. Random and
    effectful operators never run twice.

    The budget limits the peak of what a step allocates from the beginning of the model's forward
    to the end of its backward pass: activations, results, gradients (also of parameters), and
    workspaces of operators. Parameters, buffers and inputs are excluded. The optimizer's state, and
    what the program computes from the model's results, such as a loss, come on top; put the loss
    into the model's forward to have it planned.

    Args:
        model: a module, which stays usable. The returned model shares its parameters, buffers,
            submodules and all other attributes: `eval()` on either affects both, and either may
            be given to an optimizer.
        example_inputs: arguments of a call: a tuple of positional arguments, a dictionary of
            keyword arguments, or one argument. Without them the first call is captured. Other
            shapes, types and modes are captured and planned when they first occur.
        budget: bytes, such as `"8 GiB"`; a share of the peak without recomputation, such as
            `"60%"` or 0.6; `"min"` for the smallest peak found; None to recompute nothing.
        planner: a function of a graph and a budget, used instead of the search.
        measure: whether to run operators that may need workspace, to learn how much, and to
            measure a real step: pgmo warns when its peak is more than 2 % off. If False,
            predictions exclude workspaces.
        card: instead of a budget, a card's name such as "RTX 4090", or its size such as "16GiB".
            The budget is what remains after parameters, buffers, inputs, the optimizer's state,
            CUDA's context, and a hundredth for packing.
        optimizer: with `card`: the optimizer of the parameters; its state need not exist yet.
        beside: with `card`: bytes to keep free for other things, such as a second model.
        offload: lets values wait on the host where that costs less than to compute them again:
            the link to the device, "pcie3", "pcie4" or "pcie5", or its bytes per second, such as
            20e9 or "20 GB/s". Transfers use a stream of their own and pinned host memory.
        state: with `card`, `optimizer` and `offload`: whether the optimizer's state may wait on the
            host while the step runs, if that costs less time than to keep it. It is copied back
            before each step of the optimizer, and to the host after it. Needs example inputs.
        whole: whether to refuse a model with graph breaks. Otherwise its graphs are planned under
            one budget, and the code between them runs as it is.

    Returns:
        The model that recomputes, and the plan.

    Raises:
        BudgetError: when the budget is impossible; the message has the smallest possible one.
        GraphError: when the model cannot be captured, or nothing in it needs gradients.
        OptionError: when an option has an invalid value, `model` is no module, or PyTorch is older
            than 2.11.

    Example:
        >>> model, plan = pgmo.recompute(model, batch, budget="8 GiB")  # doctest: +SKIP
        >>> print(plan.explain())  # doctest: +SKIP

    Source:
        Kusumoto et al., "A Graph Theoretic Framework of Recomputation Algorithms for
        Memory-Efficient Backpropagation" (2019), arXiv 1905.11722, for the problem; the search and
        the schedule are described in docs/design/recompute.md.
    """
    options = RecomputeOptions(
        budget,
        planner,
        measure,
        card,
        optimizer,
        beside,
        offload,
        state,
        whole,
    )
    arguments = None if example_inputs is _NOT_GIVEN else call_of(example_inputs)
    made, plan = planned(model, arguments, options, Shapes())
    settle_state(options, plan)
    return made, plan


@dataclass(frozen=True)
class RecomputeOptions:
    """Options of `recompute`, which documents each of them; the optimizer is unwrapped."""

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
    """Let the optimizer's state sleep between steps from now on, or no longer, as a plan has it."""
    if options.optimizer is not None:
        let_state_sleep(options.optimizer, sleeps=plan.state_bytes > 0)


def planned(
    model: M,
    call: Call | None,
    options: RecomputeOptions,
    shapes: Shapes,
    *,
    try_awake: bool = True,
) -> tuple[M, RecomputePlan]:
    """Plan a model within a budget, as `recompute` documents.

    Without a `call`, the first call is planned. No search runs if a plan of `shapes` fits.

    With `options.state`, `try_awake` is whether to plan with the state on the card as well.
    """
    refuse_old_versions()
    if not isinstance(model, nn.Module):
        raise OptionError(f"model is a {type(model).__name__}; give a torch.nn.Module")
    rate = None if options.offload is None else parse_link(options.offload)
    refuse_lazy(original(model))
    resident = _resident(model, call)
    on_card = _whole_card(model, resident, options)
    if not options.state:
        return _within(model, call, options, shapes, on_card)
    if on_card is None or on_card.optimizer is None or rate is None or call is None:
        raise OptionError("state=True needs card=, optimizer=, offload= and example inputs")
    awake = None
    if try_awake:
        try:
            awake = _within(model, call, options, shapes, on_card)
        except BudgetError:
            try_awake = False
    if awake is not None:
        seconds = awake[1].overhead * awake[1].graph.forward_cost
        if seconds <= 2 * on_card.optimizer.state / rate:
            return awake
        shapes = Shapes()  # else the search ends at the plan that was found
    try:
        asleep = _within(model, call, options, shapes, replace(on_card, state_sleeps=True))
    except BudgetError:
        if awake is None:
            raise
        return awake
    return min((one for one in (awake, asleep) if one), key=lambda one: one[1].overhead)


def _within(
    model: M,
    call: Call | None,
    options: RecomputeOptions,
    shapes: Shapes,
    on_card: CardBudget | None,
) -> tuple[M, RecomputePlan]:
    """Plan a model for a budget, or for what a card has left."""
    rate = None if options.offload is None else parse_link(options.offload)
    settings = Settings(
        parse_budget(options.budget if on_card is None else on_card.left),
        find_planner(options.planner, rate),
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
    return _twin(recomputing, settings, model), RecomputePlan(recomputing, resident, on_card)


def _whole_card(model: nn.Module, resident: int, options: RecomputeOptions) -> CardBudget | None:
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
        sum(one.nbytes for one in trained),  # Weights of cuDNN's LSTM share a storage.
        None if optimizer is None else optimizer_needs(optimizer),
        parse_bytes(options.beside),
    )


def _twin(recomputing: CompiledModel, settings: Settings, model: M) -> M:
    return twin(model, recomputing, functools.partial(_again, _without_plans(settings)))


def _again(settings: Settings, model: M) -> M:
    """Return a twin of a copied or unpickled model, which is captured again for its parameters."""
    settings = _without_plans(settings)
    return _twin(CompiledModel(model, settings), settings, model)


def _without_plans(settings: Settings) -> Settings:
    """Return the settings without the plans that were made for another model."""
    return replace(settings, shapes=Shapes())


def call_of(example: object) -> Call:
    """Return the arguments that example inputs stand for."""
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
