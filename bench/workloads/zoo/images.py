"""Models of timm, torchvision and diffusers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads.zoo.model import Batch, Made, add

CLASSES = 10


class Classified(nn.Module):
    """Image model with its loss."""

    def __init__(self, body: nn.Module, channels_last: bool) -> None:
        super().__init__()
        self.body, self.channels_last = body, channels_last
        if channels_last:
            self.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the scalar loss; scores of a segmentation are averaged over its pixels."""
        scores = self.body(images)
        if isinstance(scores, dict):
            scores = scores["out"].mean((2, 3))
        if isinstance(scores, tuple):  # GoogLeNet's two auxiliary heads
            scores = scores[0] + 0.3 * scores[1] + 0.3 * scores[2]
        return functional.cross_entropy(scores, labels)


def _images(side: int, channels_last: bool) -> Callable[[int], Batch]:
    def batch(samples: int) -> Batch:
        images = torch.randn(samples, 3, side, side)
        if channels_last:
            images = images.to(memory_format=torch.channels_last)
        return images, torch.randint(CLASSES, (samples,))

    return batch


def timm_model(
    title: str,
    name: str,
    side: int = 64,
    samples: int = 16,
    channels_last: bool = False,
    **options: Any,
) -> None:
    """Add a model of timm to the zoo."""

    def build() -> Made:
        import timm

        body = timm.create_model(name, num_classes=CLASSES, **options)
        model = Classified(body, channels_last)
        return Made(model, _images(side, channels_last), samples, body.set_grad_checkpointing)

    add(title, "timm", build)


timm_model("ConvNeXt", "convnext_atto", 64, 16)
timm_model("ResNet-18", "resnet18", 64, 32)
timm_model("ResNet-18, channels last", "resnet18", 64, 32, channels_last=True)
timm_model("DenseNet", "densenet121", 64, 16, block_config=(2, 4, 4, 2))
timm_model("EfficientNet", "efficientnet_b0", 64, 8)
timm_model("MobileNetV3", "mobilenetv3_small_100", 64, 16)
timm_model("RegNet", "regnety_002", 64, 16)
_small = {"embed_dim": 24, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 4, 8)}
timm_model("Swin", "swin_tiny_patch4_window7_224", 56, 16, img_size=56, **_small)
timm_model("ViT of timm", "vit_tiny_patch16_224", 64, 16, img_size=64, patch_size=8, depth=3)
timm_model("MaxViT", "maxvit_pico_rw_256", 64, 4, img_size=64)


def _torchvision(title: str, name: str, side: int, samples: int, **options: Any) -> None:
    def build() -> Made:
        from torchvision import models

        make = getattr(models, name, None) or getattr(models.segmentation, name)
        model = Classified(make(weights=None, num_classes=CLASSES, **options), False)
        return Made(model, _images(side, False), samples)

    add(title, "torchvision", build)


_torchvision("GoogLeNet", "googlenet", 64, 16, init_weights=False)
_torchvision("LR-ASPP", "lraspp_mobilenet_v3_large", 64, 8, weights_backbone=None)
_torchvision("ShuffleNet", "shufflenet_v2_x0_5", 64, 16)


class Denoised(nn.Module):
    """Diffusion model with its loss."""

    def __init__(self, body: nn.Module, *names: str) -> None:
        super().__init__()
        self.body, self.names = body, names

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the mean squared difference between the result and the first input."""
        arguments = dict(zip(self.names, inputs[1:], strict=True))
        found = self.body(inputs[0], **arguments).sample
        return functional.mse_loss(found[:, : inputs[0].shape[1]], inputs[0])


class Encoded(nn.Module):
    """Variational autoencoder with its loss."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body

    def forward(self, images: Tensor) -> Tensor:
        """Return the sum of reconstruction loss and divergence."""
        found = self.body.encode(images).latent_dist
        made = self.body.decode(found.sample()).sample
        return functional.mse_loss(made, images) + 1e-6 * found.kl().mean()


def diffuser(
    title: str,
    kind: str,
    wrap: Callable[[Any], nn.Module],
    batch: Callable[[int], Batch],
    **options: Any,
) -> None:
    """Add the class `kind` of diffusers to the zoo; `wrap` adds the loss."""

    def build() -> Made:
        import diffusers

        body = getattr(diffusers, kind)(**options)
        return Made(wrap(body), batch, 8, body.enable_gradient_checkpointing)

    add(title, "diffusers", build)


diffuser(
    "U-Net",
    "UNet2DModel",
    lambda body: Denoised(body, "timestep"),
    lambda samples: (torch.randn(samples, 3, 32, 32), torch.randint(1000, (samples,))),
    sample_size=32,
    block_out_channels=(16, 32),
    norm_num_groups=8,
    layers_per_block=1,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=8,
)
diffuser(
    "VAE",
    "AutoencoderKL",
    Encoded,
    lambda samples: (torch.randn(samples, 3, 32, 32),),
    block_out_channels=(16, 32),
    norm_num_groups=8,
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
    sample_size=32,
)


def _times_and_labels(samples: int) -> Batch:
    times, labels = torch.randint(1000, (samples,)), torch.randint(CLASSES, (samples,))
    return torch.randn(samples, 4, 16, 16), times, labels


diffuser(
    "DiT",
    "DiTTransformer2DModel",
    lambda body: Denoised(body, "timestep", "class_labels"),
    _times_and_labels,
    num_attention_heads=4,
    attention_head_dim=16,
    in_channels=4,
    num_layers=3,
    sample_size=16,
    patch_size=2,
    num_embeds_ada_norm=CLASSES,
)
