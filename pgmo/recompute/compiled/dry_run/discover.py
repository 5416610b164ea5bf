"""Dry run of a step, which undoes all that it changed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.errors import GraphError
from pgmo.recompute.calls.signature import distinct, places
from pgmo.recompute.calls.undone import copied, restoring_all_but_flags, restoring_state
from pgmo.recompute.capture.compat import flatten, storage_key, unflatten
from pgmo.recompute.capture.memory_use.meter import Meter, can_measure
from pgmo.recompute.capture.quiet import without_collector
from pgmo.recompute.compiled.dry_run.discovery import (
    Arguments,
    CallKey,
    Discovery,
    note_gradients,
    results_of,
)
from pgmo.recompute.compiled.dry_run.regions import regions
from pgmo.recompute.compiled.dry_run.written import WriteRollback
from pgmo.recompute.compiled.dynamo.errors import NOTHING, NothingToPlanError
from pgmo.recompute.compiled.graph import ThreadStep


def discover(
    model: nn.Module,
    run: Callable[..., Any],
    arguments: Arguments,
    thread_step: ThreadStep,
    measure: bool,
    wanted: frozenset[int] | None = None,
    plain: frozenset[CallKey] = frozenset(),
) -> Discovery:
    """Run a step and undo all that it changed: buffers, gradients and attributes are restored.

    Args:
        model: the model.
        run: the model's compiled forward method.
        arguments: arguments of the call.
        thread_step: state of the thread's step.
        measure: whether to measure the code between graphs.
        wanted: places of the results to differentiate; None for the loss, or all without a loss.
        plain: calls of graphs that run unplanned.

    Raises:
        GraphError: when Dynamo captures nothing of a model that has a derivative.
        NothingToPlanError: when no output has a derivative.
    """
    leaves, spec = flatten(arguments)
    tensors = distinct(leaves)
    parameters = list(model.parameters())
    devices = {one.device for one in (*tensors, *parameters)}
    device = next((one.device for one in parameters), torch.device("cpu"))
    found = Discovery(Meter(device) if measure and can_measure(device) else None, plain)
    gradients = [one.grad for one in parameters]
    with ExitStack() as stack:
        stack.enter_context(restoring_state(model, [one for one in devices if one.type == "cuda"]))
        stack.callback(torch.clear_autocast_cache)
        stack.callback(_restore, parameters, gradients)
        stack.enter_context(without_hooks(parameters))
        stack.callback(setattr, thread_step, "observer", None)
        stack.callback(setattr, thread_step, "choose", thread_step.choose)
        copies = [copied(one) for one in tensors]
        found.known = {storage_key(one) for one in (*copies, *parameters, *model.buffers())}
        stack.enter_context(torch.enable_grad())
        if found.meter is not None:
            stack.enter_context(without_collector())
            stack.enter_context(found.meter)
        thread_step.observer, thread_step.choose = found, found.choose
        for place, number in places(leaves).items():
            leaves[place] = copies[number]
        del tensors  # The copies stay, because a program holds its model's inputs.
        given, keywords = unflatten(leaves, spec)
        returned = run(*given, **keywords)
        del given, keywords, leaves
        _differentiate(found, returned, wanted)
        del returned
        found.close()
    if not found.calls and not plain:
        raise GraphError(
            f"Dynamo captured no part of {type(model).__name__}. Its forward method "
            "may be disabled for it (torch.compiler.disable), or call what Dynamo cannot follow: "
            "TORCH_LOGS=graph_breaks has the reason"
        )
    if not found.backward_calls:
        raise NothingToPlanError(NOTHING)
    count = len(found.calls) + len(found.backward_calls) + 2
    found.regions = regions([] if found.meter is None else found.meter.changes, count)
    return found


@contextmanager
def without_hooks(tensors: list[nn.Parameter]) -> Iterator[None]:
    """Run a block in which hooks of tensors do not run."""
    kinds = ("_backward_hooks", "_post_accumulate_grad_hooks")
    hooks: list[dict[Any, Any]] = [
        found for one in tensors for kind in kinds if (found := getattr(one, kind, None))
    ]
    before = [dict(one) for one in hooks]
    for one in hooks:
        one.clear()
    try:
        yield
    finally:
        for one, own in zip(hooks, before, strict=True):
            one.update(own)


def warm_up(model: nn.Module, run: Callable[..., Any], arguments: Arguments) -> list[Tensor]:
    """Run a plain forward pass, so that the setup of a first call breaks no graph.

    Libraries install hooks at the first call, under a lock, and log warnings once. Nothing is saved
    for a backward pass. Parameters, buffers and attributes are restored.

    Returns:
        The parameters and the tensors in attributes that the forward pass writes.
    """
    leaves, spec = flatten(arguments)
    tensors = distinct(leaves)
    devices = {one.device for one in (*tensors, *model.parameters()) if one.device.type == "cuda"}
    copies = [copied(one) for one in tensors]
    for place, number in places(leaves).items():
        leaves[place] = copies[number]
    given, keywords = unflatten(leaves, spec)
    dropping = torch.autograd.graph.saved_tensors_hooks(_drop, _drop)
    silent = suppress(Exception)  # The capture raises the same error.
    with restoring_all_but_flags(model, devices) as contents, torch.enable_grad(), dropping:
        rollback = WriteRollback((*model.parameters(), *contents.tensors))
        with rollback, silent:
            run(*given, **keywords)
    return rollback.written


def _drop(_saved: object) -> Any:
    return None


def _differentiate(found: Discovery, returned: object, wanted: frozenset[int] | None) -> None:
    results = results_of(returned)
    places = range(len(results))
    chosen = [place for place in places if wanted is None or place in wanted]
    if wanted is None:
        chosen = [place for place in chosen if results[place].numel() == 1] or chosen
    if not chosen:
        raise NothingToPlanError(NOTHING)
    roots = [results[place] for place in chosen]
    note_gradients(results, found.differentiated)
    found.given = sum(512 + one.nbytes for one in roots)
    found.check_sum_order(roots)
    found.turn()
    torch.autograd.backward(roots, [torch.zeros_like(one) for one in roots])


def _restore(parameters: list[nn.Parameter], gradients: list[Tensor | None]) -> None:
    for one, gradient in zip(parameters, gradients, strict=True):
        one.grad = gradient
