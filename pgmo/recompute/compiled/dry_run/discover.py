"""Execution of a dry run, and of the plain forward pass before the first dry run."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.errors import GraphError
from pgmo.recompute.calls.signature import Arguments
from pgmo.recompute.calls.undone import copied_arguments, restoring_state
from pgmo.recompute.capture.compat import storage_key
from pgmo.recompute.capture.memory_use.meter import meter
from pgmo.recompute.capture.quiet import without_collector
from pgmo.recompute.compiled.dry_run.discovery import (
    CallKey,
    Discovery,
    note_gradients,
    results_of,
)
from pgmo.recompute.compiled.dry_run.regions import regions
from pgmo.recompute.compiled.dry_run.written import WriteRollback
from pgmo.recompute.compiled.dynamo.errors import ALL_UNPLANNED, NOTHING, NothingToPlanError
from pgmo.recompute.compiled.graph import ThreadStep


def discover(
    model: nn.Module,
    run: Callable[..., Any],
    arguments: Arguments,
    thread_step: ThreadStep,
    measure: bool,
    wanted: frozenset[int] | None,
    plain: frozenset[CallKey],
) -> Discovery:
    """Run a step, undo its changes of the model and of random generators, and return its record.

    Args:
        model: the model.
        run: the model's compiled forward method.
        arguments: arguments of the call.
        thread_step: state of the thread's step.
        measure: whether to measure the code between graphs.
        wanted: indices of the results to differentiate. If None, the results with one element are
            differentiated, or all results if none has one element.
        plain: calls of graphs that run unplanned.

    Raises:
        GraphError: if Dynamo captures no graph with a backward pass.
        NothingToPlanError: if no result has a derivative, or all graphs run unplanned.
    """
    (given, keywords), copies = copied_arguments(arguments)
    parameters = list(model.parameters())
    devices = {one.device for one in (*copies, *parameters)}
    device = next((one.device for one in parameters), torch.device("cpu"))
    found = Discovery(meter(device) if measure else None, plain)
    gradients = [one.grad for one in parameters]
    with ExitStack() as stack:
        stack.enter_context(restoring_state(model, [one for one in devices if one.type == "cuda"]))
        stack.callback(torch.clear_autocast_cache)
        stack.callback(_restore, parameters, gradients)
        stack.enter_context(without_hooks(parameters))
        stack.callback(setattr, thread_step, "observer", None)
        stack.callback(setattr, thread_step, "choose", thread_step.choose)
        found.known = {storage_key(one) for one in (*copies, *parameters, *model.buffers())}
        stack.enter_context(torch.enable_grad())
        if found.meter is not None:
            stack.enter_context(without_collector())
            stack.enter_context(found.meter)
        thread_step.observer, thread_step.choose = found, found.choose
        # `copies` stay alive during the step, because a program holds its model's inputs.
        returned = run(*given, **keywords)
        _differentiate(found, returned, wanted)
        del returned
        found.close()
    if not found.calls and not plain:
        raise GraphError(
            f"Dynamo captured no part of {type(model).__name__} that needs gradients. Its forward "
            "method may be disabled (torch.compiler.disable), or call code that Dynamo cannot "
            "capture. TORCH_LOGS=graph_breaks shows graph breaks"
        )
    if not found.backward_calls:
        raise NothingToPlanError(ALL_UNPLANNED if plain else NOTHING)
    count = len(found.calls) + len(found.backward_calls) + 2
    found.regions = regions([] if found.meter is None else found.meter.changes, count)
    return found


@contextmanager
def without_hooks(tensors: list[nn.Parameter]) -> Iterator[None]:
    """Remove the hooks of tensors while a block runs."""
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
    """Run a plain forward pass, so that setup in the first call breaks no graph.

    Some libraries install hooks at the first call, under a lock, and log warnings once. Hooks and
    new flags stay (`AttributeRecord.restore_values`). Parameters, buffers and other attributes are
    restored. Nothing is saved for a backward pass. Errors are ignored.

    Returns:
        The parameters and the tensors in attributes that the forward pass writes.
    """
    (given, keywords), copies = copied_arguments(arguments)
    devices = {one.device for one in (*copies, *model.parameters()) if one.device.type == "cuda"}
    dropping = torch.autograd.graph.saved_tensors_hooks(_drop, _drop)
    silent = suppress(Exception)  # The capture will raise the same error.
    restoring = restoring_state(model, devices, keeps_setup=True)
    with restoring as contents, torch.enable_grad(), dropping:
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
    found.root_bytes = sum(512 + one.nbytes for one in roots)
    found.check_sum_order(roots)
    found.turn()
    torch.autograd.backward(roots, [torch.zeros_like(one) for one in roots])


def _restore(parameters: list[nn.Parameter], gradients: list[Tensor | None]) -> None:
    for one, gradient in zip(parameters, gradients, strict=True):
        one.grad = gradient
