import functools
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.frozen.hooks import refuse_hooks  # noqa: E402

X = torch.ones(4, 8)


def net():
    return nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.GELU(), nn.Linear(8, 8)))


def watch(*_arguments):
    """A hook that does nothing."""


def made(model):
    return pgmo.recompute(model, X, 1.0, measure=False)[0]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("register_forward_hook", "forward hook"),
        ("register_forward_pre_hook", "forward pre-hook"),
        ("register_full_backward_hook", "backward hook"),
        ("register_full_backward_pre_hook", "backward pre-hook"),
    ],
)
def test_hooks_of_submodules_are_refused_by_name_whenever_they_come(kind, words):
    plain = net()
    handle = getattr(plain[1][0], kind)(watch)
    message = rf"1\.0 has a {words}, `watch` \(.*test_hooks\.py:\d+\)"
    with pytest.raises(pgmo.errors.GraphError, match=message):
        made(plain)
    handle.remove()
    model = made(plain)
    model(X).sum().backward()
    handle = getattr(plain[1][0], kind)(functools.partial(watch, None))
    with pytest.raises(pgmo.errors.GraphError, match=message):
        model(X)
    handle.remove()
    model(X).sum().backward()


def test_hooks_of_the_model_itself_run_at_each_call():
    plain, seen = net(), []
    plain.register_forward_hook(lambda module, given, result: seen.append(type(result)))
    model = made(plain)
    for _ in range(2):
        model(X).sum().backward()
    assert seen == [torch.Tensor] * 2


def test_hooks_of_all_modules():
    model = made(net())
    handle = nn.modules.module.register_module_forward_hook(watch)
    try:
        with pytest.raises(pgmo.errors.GraphError, match="a forward hook for all modules, `watch`"):
            model(X)
    finally:
        handle.remove()
    model(X).sum().backward()


def test_hooks_that_compute_weights_are_captured():
    plain = net()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nn.utils.weight_norm(plain[0])
    model = made(plain)
    for _ in range(2):
        plain.zero_grad()
        plain(X).sum().backward()
        expected = plain[0].weight_g.grad.clone()
        plain.zero_grad()
        model(X).sum().backward()
        assert torch.equal(plain[0].weight_g.grad, expected)


def test_a_model_without_hooks_passes():
    refuse_hooks(net())
