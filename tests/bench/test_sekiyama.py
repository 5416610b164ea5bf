"""Tests that networks of Sekiyama et al. 2018 have as many parameters as in their papers."""

import importlib

import pytest

torch = pytest.importorskip("torch")

LARGE, SMALL = 5, 3
"""Kernel sizes of GoogLeNet's third path, in the paper and in torchvision."""


def count(make):
    """Return the number of parameters of a network."""
    with torch.device("meta"):
        return sum(one.numel() for one in make().parameters())


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("sekiyama.alexnet", 61_100_840),  # as in torchvision
        ("resnet", 25_557_032),  # as in torchvision
        ("sekiyama.inception_resnet", 55_843_464),  # as in timm
    ],
)
def test_parameters(name, parameters):
    from workloads import Shape

    network = importlib.import_module(f"workloads.{name}").network
    assert count(lambda: network(Shape(1))) == parameters


def test_googlenet():
    """The expected numbers are those of torchvision, which has batch norm for biases."""
    from workloads.sekiyama.googlenet import MODULES, Network

    paths = [widths for every in MODULES for widths in every]
    kernels = (LARGE**2 - SMALL**2) * sum(narrow * five for *_, narrow, five, _ in paths)
    channels = 64 + 64 + 192 + sum(sum(widths) for widths in paths)
    plain, all_heads = count(lambda: Network(auxiliary=False)), count(Network)
    assert plain - kernels + channels == 6_624_904
    assert all_heads - kernels + channels + 2 * 128 == 13_004_888
    assert (plain, all_heads) == (6_998_552, 13_378_280)


@pytest.mark.parametrize("name", ["alexnet", "googlenet", "resnet", "inception_resnet"])
def test_small_ones_are_trained(name):
    """Thin networks train on images of the usual size."""
    from workloads import CLASSES, Shape

    made = getattr(
        importlib.import_module(f"workloads.sekiyama.{name}"), CLASSES[f"sekiyama.{name}"]
    )
    model = made.build(None, Shape(1, small=True))
    scores = model(torch.zeros(2, 3, made.side, made.side))
    scores = (scores,) if isinstance(scores, torch.Tensor) else scores
    assert [one.shape for one in scores] == [(2, 1000)] * (3 if name == "googlenet" else 1)
    sum(one.mean() for one in scores).backward()
    assert all(one.grad is not None for one in model.parameters())
    model.eval()
    with torch.inference_mode():
        assert model(torch.zeros(1, 3, made.side, made.side)).shape == (1, 1000)
