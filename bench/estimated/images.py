"""Models of images: of timm, transformers, torchvision and diffusers."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from estimated import Step, add
from estimated.training import training

CLASSES = 1000


def _classifier(name: str, library: str, make: Any, samples: int, size: int = 224) -> None:
    def build(device: str) -> Step:
        def loss(model: Any) -> Tensor:
            images = torch.randn(samples, 3, size, size, device=device)
            labels = torch.randint(0, CLASSES, (samples,), device=device)
            out = model(images)
            return functional.cross_entropy(getattr(out, "logits", out), labels)

        return training(make(), loss, device)

    add(name, library, build)


def _timm(name: str, model: str, samples: int, **options: Any) -> None:
    def make() -> Any:
        import timm

        return timm.create_model(model, num_classes=CLASSES, **options)

    _classifier(name, "timm", make, samples)


def _torchvision(name: str, model: str, samples: int) -> None:
    def make() -> Any:
        import torchvision

        return getattr(torchvision.models, model)(num_classes=CLASSES)

    _classifier(name, "torchvision", make, samples)


_timm("ResNet-50", "resnet50", 4)
_timm("EfficientNet B0", "efficientnet_b0", 8)
_timm("ConvNeXt tiny", "convnext_tiny", 4)
_timm("Swin tiny", "swin_tiny_patch4_window7_224", 4)
_timm("MobileNet v3", "mobilenetv3_large_100", 16)
_timm("ViT small", "vit_small_patch16_224", 16)
_timm("MLP-Mixer", "mixer_s16_224", 16)
_timm("RegNet Y", "regnety_008", 16)
_torchvision("DenseNet-121", "densenet121", 4)


def _vit() -> Any:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(ViTConfig(num_hidden_layers=4, num_labels=CLASSES))


_classifier("ViT base", "transformers", _vit, 8)


def _unet(device: str) -> Step:
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=64,
        block_out_channels=(64, 128, 256, 256),
        layers_per_block=1,
    )

    def loss(unet: Any) -> Tensor:
        images = torch.randn(4, 3, 64, 64, device=device)
        noise = torch.randn(4, 3, 64, 64, device=device)
        times = torch.randint(0, 1000, (4,), device=device)
        return functional.mse_loss(unet(images + noise, times).sample, noise)

    return training(model, loss, device)


def _dit(device: str) -> Step:
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(
        num_attention_heads=12, attention_head_dim=64, num_layers=4, sample_size=32
    )

    def loss(dit: Any) -> Tensor:
        images = torch.randn(8, 4, 32, 32, device=device)
        times = torch.randint(0, 1000, (8,), device=device)
        labels = torch.randint(0, 1000, (8,), device=device)
        out = dit(images, timestep=times, class_labels=labels).sample
        return functional.mse_loss(out[:, :4], images)

    return training(model, loss, device)


def _autoencoder(device: str) -> Step:
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        block_out_channels=(64, 128, 256),
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        layers_per_block=1,
        latent_channels=4,
    )

    def loss(coder: Any) -> Tensor:
        images = torch.randn(2, 3, 128, 128, device=device)
        posterior = coder.encode(images).latent_dist
        out = coder.decode(posterior.sample()).sample
        return functional.mse_loss(out, images) + 1e-6 * posterior.kl().mean()

    return training(model, loss, device)


add("UNet2D", "diffusers", _unet)
add("DiT", "diffusers", _dit)
add("AutoencoderKL", "diffusers", _autoencoder)
