import gc
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.capture.memory_use.meter import meter  # noqa: E402
from pgmo.recompute.compiled.pending import PendingCalls  # noqa: E402

X = torch.linspace(-1, 1, 512 * 64).reshape(512, 64)


def net():
    torch.manual_seed(0)
    return nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(64, 64), nn.GELU())))


def test_a_call_waits_until_its_backward_pass_begins_or_its_result_is_gone():
    pending = PendingCalls()
    one, other = (torch.ones(2, requires_grad=True).sum() for _ in range(2))
    pending.add([one.grad_fn], 8, lambda: None)
    pending.add([other.grad_fn], 16, lambda: None)
    assert (len(pending), pending.held) == (2, 24)
    one.backward()
    assert (len(pending), pending.held) == (1, 16)
    del other
    gc.collect()
    assert len(pending) == 0


def test_two_calls_before_a_backward_pass_are_measured_together():
    model, plan = pgmo.recompute(net(), X, 0.7)
    peaks = []
    for step in range(2):
        model.zero_grad()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            (model(X).sum() + model(X.flip(0)).sum()).backward()
        assert len(said) == (step == 0)
    assert "before the backward pass of an earlier call, which holds" in str(pending_words(model))
    model.zero_grad()
    with meter(torch.device("cpu")) as measured:
        (model(X).sum() + model(X.flip(0)).sum()).backward()
    peaks.append(measured.whole.peak)
    assert plan.peak < plan.measured_peak == pytest.approx(peaks[0], rel=0.15)


def pending_words(model):
    """Return the warnings about a second call."""
    again, _ = pgmo.recompute(model, X, 0.7)
    with pytest.warns(UserWarning, match="is called again") as said:
        results = [again(X), again(X)]
    del results
    assert said[0].filename == __file__
    return said[0].message


def test_losses_that_are_kept_do_not_wait():
    model, _ = pgmo.recompute(net(), X, 1.0)
    kept = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            kept.append(model(X).sum())
            kept[-1].backward()
            model(X)  # its result is gone at once
