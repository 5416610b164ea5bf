"""ResNet-50 of `workloads.resnet`, in float32."""

from torch import nn

from workloads import Shape
from workloads.classifier import Classifier
from workloads.resnet import network


class ResNet(Classifier):
    """Training and inference of ResNet-50."""

    def build(self, shape: Shape) -> nn.Module:
        return network(shape)
