"""Joint graphs of small modules, as AOTAutograd hands them to a partition function; needs torch."""

import torch
from torch import nn

from pgmo.recompute.capture import compat
from pgmo.recompute.capture.flat import FlatModule
from pgmo.recompute.capture.joint_graph import capture


def captured(module, *inputs, **options):
    """The captured step of a module called with `inputs`."""
    found = []

    def partition(joint, _inputs, *, num_fwd_outputs, **_more):
        found.append(capture(joint, num_fwd_outputs, **options))
        raise _EnoughError

    flat = FlatModule(module, module.forward, (inputs, {}))
    tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
    try:
        compat.compile_joint(flat, tensors, partition, nothing, nothing)
    except _EnoughError:
        return found[0]
    raise AssertionError("there was nothing to partition")


class _EnoughError(Exception):
    pass


def nothing(module, _inputs):
    raise AssertionError("this is never compiled")


def by_name(graph, name):
    """Indices of the operations of that name."""
    return [index for index, one in enumerate(graph.operations) if one.name == f"aten.{name}"]


class Normed(nn.Module):
    """A convolution, a normalisation and an activation in place, in two submodules."""

    def __init__(self, width=8):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.act = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.act(self.conv(x)).square().mean()
