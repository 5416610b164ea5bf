"""Tests that frames of pgmo in an error's traceback hold no tensors of a step."""

import traceback
import weakref

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from pgmo.error_frames import clear_backward_frames, clear_frames, clears_frames, held  # noqa: E402
from pgmo.runner.step_on import StepOn  # noqa: E402
from pgmo.serving import interception  # noqa: E402
from tests.held_frames import (  # noqa: E402
    FailsInBackward,
    alive_after_error,
    alive_with_error,
    failing,
    fails,
    without_collector,
)
from tests.unit.profiler.networks import tagger_with  # noqa: E402


def test_with_names_that_calls_has_asked_frames_for():
    """A dictionary of a frame's variables stays in the frame, even if the frame is cleared.

    The model is wrapped, so its call also passes pgmo's own frames.
    """

    class Model(nn.Module):
        def forward(self, x):
            with failing():
                return fails(x * 2)

    model = interception.intercept_calls(Model(), ["__call__"], lambda method, *args: method(*args))

    def run(noted):
        with tagger_with(lambda _: None):
            model(noted("input", torch.ones(8)))

    assert alive_with_error(run) == []


def test_a_derivative_that_pgmo_has_brought_in():
    class Ours(FailsInBackward):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return fails(gradient)

    clear_backward_frames(Ours._backward_cls)
    clear_backward_frames(Ours._backward_cls)  # a second call has no effect

    def run(noted):
        given = noted("given", torch.ones(4, requires_grad=True) * 2)
        with failing():
            noted("result", Ours.apply(given)).sum().backward()

    assert alive_with_error(run) == []


def test_a_function_whose_calls_are_iterations():
    stepping = StepOn("train:step", "train", lambda function, *args: function(*args)).decorate(
        lambda x: fails(x)
    )

    def run(noted):
        with failing():
            stepping(noted("given", torch.ones(4)))

    assert alive_with_error(run) == []


# --- what clears them ----------------------------------------------------------------------------


@clears_frames
def outer(value):
    return inner(value)


def inner(value):
    raise ValueError(value)


def test_the_traceback_stays_readable():
    with pytest.raises(ValueError, match="3") as caught:
        outer(3)
    assert [one.name for one in traceback.extract_tb(caught.value.__traceback__)][-3:] == [
        "clearing",
        "outer",
        "inner",
    ]


def test_frames_of_the_program_keep_what_they_hold():
    with pytest.raises(ValueError, match="3") as caught:
        outer(3)
    assert caught.traceback[-1].frame.f_locals == {"value": 3}


def test_a_generator_that_goes_on_is_not_closed():
    def clearing_generator():
        try:
            raise ValueError
        except ValueError as error:
            seen.append(error)
        yield 1
        yield 2

    clearing_generator.__globals__["__name__"], before = "pgmo.x", __name__
    seen = []
    try:
        generator = clearing_generator()
        assert next(generator) == 1
        clear_frames(seen[0])
        assert next(generator) == 2
    finally:
        clearing_generator.__globals__["__name__"] = before


def test_causes_are_cleared_too():
    def run(noted):
        with failing():
            clears_frames(explain)(noted)

    def explain(noted):
        try:
            fails(noted("given", torch.ones(4)))
        except torch.OutOfMemoryError as error:
            raise ValueError("explained") from error

    assert alive_after_error(run) == []


def test_errors_that_are_held_are_counted():
    @clears_frames
    def run():
        raise torch.OutOfMemoryError("no")

    with without_collector():
        before = held.value
        kept = []
        for _ in range(2):
            try:
                clears_frames(run)()  # passes pgmo twice
            except torch.OutOfMemoryError as error:
                kept.append(error)
        assert held.value == before + 2
        kept.pop()
        assert held.value == before + 1
        reference = weakref.ref(kept.pop())
        assert reference() is None
        assert held.value == before
        with pytest.raises(ValueError, match="no memory"):
            clears_frames(int)("no memory")
        assert held.value == before
