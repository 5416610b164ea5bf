"""Joint graphs of small modules, as AOTAutograd gives them to a partition function; needs torch."""

import pytest
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

from pgmo.recompute.capture import compat
from pgmo.recompute.capture.eager import as_in_eager_mode
from pgmo.recompute.capture.joint_graph import capture
from pgmo.recompute.compiled.dynamo.settings import as_plain_model, compiled


def captured(module, *inputs, **options):
    """Return the captured step of a module called with `inputs`."""
    found = []

    def partition(joint, _inputs, *, num_fwd_outputs, **_more):
        found.append(capture(joint, num_fwd_outputs, **options))
        raise _EnoughError

    compiler = compat.backend(partition, nothing, nothing)
    with (
        as_plain_model(set()),
        as_in_eager_mode(),
        pytest.raises((BackendCompilerFailed, _EnoughError)),
    ):
        compiled(module.forward, compiler)(*inputs)
    return found[0]


class _EnoughError(Exception):
    pass


def nothing(module, _inputs):
    raise AssertionError("this is never compiled")


def by_name(graph, name):
    """Return the indices of the operations `aten.<name>`."""
    return [index for index, one in enumerate(graph.operations) if one.name == f"aten.{name}"]


class Normed(nn.Module):
    """A convolution, a normalisation and an activation in place, in two submodules."""

    def __init__(self, width=8):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.act = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.act(self.conv(x)).square().mean()
