"""Real programs, one per file, which do not import pgmo. `real_programs.py` runs them.

Each is run as a script, with `bench` on the path:

    PYTHONPATH=bench python bench/programs/nanogpt.py --steps 20

Models are built from small configurations with random weights, data is made up, and nothing is
downloaded. Code that several programs need is in `common`. This module needs only the standard
library.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Program:
    """A script, and the options with which pgmo runs it.

    Args:
        title: title in tables.
        packages: packages that it needs in addition to torch.
        options: options of `pgmo run`.
    """

    title: str
    packages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


HF = ("transformers", "accelerate")

PROGRAMS = {
    "nanogpt": Program("nanoGPT, 2 micro-batches"),
    "mnist": Program("pytorch/examples, mnist"),
    "dcgan": Program("pytorch/examples, dcgan"),
    "wgan_gp": Program("PyTorch-GAN, wgan_gp"),
    "trainer_padding": Program("HF Trainer, BERT, padding, accumulation 2", (*HF, "datasets")),
    "trainer_by_length": Program("HF Trainer, GPT-2, by length, bf16", (*HF, "datasets")),
    "trainer_lora": Program("HF Trainer, Llama with LoRA", (*HF, "datasets", "peft")),
    "trl_sft": Program("trl SFT, accumulation 2", (*HF, "datasets", "trl")),
    "trl_dpo": Program("trl DPO with LoRA", (*HF, "datasets", "trl", "peft")),
    "trl_grpo": Program("trl GRPO", (*HF, "datasets", "trl")),
    "accelerate_loop": Program("accelerate, nlp_example", HF),
    "lightning_gan": Program("Lightning, GAN, manual optimisation", ("lightning",)),
    "lightning_classifier": Program("Lightning, classifier, accumulation 2", ("lightning",)),
    "timm_vision": Program("timm, ConvNeXt, mixup, EMA", ("timm",)),
    "segmentation_unet": Program(
        "segmentation_models, U-Net on ResNet-34", ("segmentation_models_pytorch", "torchvision")
    ),
    "monai_unet": Program("MONAI, 3D U-Net", ("monai",)),
    "clip": Program("open_clip, ViT, checkpointing, float16", ("open_clip", "torchvision")),
    "diffusers_unet": Program("diffusers, train_unconditional", ("diffusers", "accelerate")),
    "generate": Program(
        "transformers, generate()",
        ("transformers",),
        ("--step-on", "transformers.models.llama.modeling_llama:LlamaForCausalLM.forward"),
    ),
}
"""Programs by the name of their file."""

NAMES = tuple(PROGRAMS)

ENDLESS = ("generate", "trl_grpo")
"""Programs whose `generate()` reads from the device when to stop, and so never ends on the stub."""


def script(name: str) -> Path:
    """Return the program's file."""
    (found,) = Path(__file__).parent.rglob(f"{name}.py")
    return found
