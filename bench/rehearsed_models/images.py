"""Models of images: of timm and torchvision."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rehearsed_models import Step, add
from rehearsed_models.training import training

CLASSES = 1000
SIZE = 224


def _classifier(name: str, make: Any, samples: int) -> None:
    def build(device: str) -> Step:
        def loss(model: Any) -> Tensor:
            images = torch.randn(samples, 3, SIZE, SIZE, device=device)
            labels = torch.randint(0, CLASSES, (samples,), device=device)
            return functional.cross_entropy(model(images), labels)

        return training(make(), loss, device)

    add(name, build)


def _timm(name: str, model: str, samples: int) -> None:
    def make() -> Any:
        import timm

        return timm.create_model(model, num_classes=CLASSES)

    _classifier(name, make, samples)


def _torchvision(name: str, model: str, samples: int) -> None:
    def make() -> Any:
        import torchvision

        return getattr(torchvision.models, model)(num_classes=CLASSES)

    _classifier(name, make, samples)


_timm("ResNet-50", "resnet50", 4)
_timm("EfficientNet B0", "efficientnet_b0", 8)
_timm("ConvNeXt tiny", "convnext_tiny", 4)
_timm("ViT small", "vit_small_patch16_224", 16)
_torchvision("DenseNet-121", "densenet121", 4)
