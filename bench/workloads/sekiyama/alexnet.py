"""AlexNet on one device (Krizhevsky 2014, "One weird trick")."""

from torch import nn

from workloads import Shape
from workloads.classifier import Classifier


def network(shape: Shape) -> nn.Module:
    """Build the network for images of 224x224, whose last pooling returns 6x6."""
    wide, hidden = shape.choose((64, 4096), reduced=(32, 1024), small=(8, 64))
    relu = nn.ReLU(inplace=True)
    return nn.Sequential(
        *(nn.Conv2d(3, wide, 11, 4, 2), relu, nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(wide, 3 * wide, 5, padding=2), relu, nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(3 * wide, 6 * wide, 3, padding=1), relu),
        *(nn.Conv2d(6 * wide, 4 * wide, 3, padding=1), relu),
        *(nn.Conv2d(4 * wide, 4 * wide, 3, padding=1), relu, nn.MaxPool2d(3, 2)),
        *(nn.Flatten(), nn.Dropout(), nn.Linear(4 * wide * 6 * 6, hidden), relu),
        *(nn.Dropout(), nn.Linear(hidden, hidden), relu, nn.Linear(hidden, 1000)),
    )


class AlexNet(Classifier):
    """Training and inference of AlexNet."""

    def build(self, shape: Shape) -> nn.Module:
        return network(shape)
