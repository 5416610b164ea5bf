"""Training and inference loops for `never_worse.py` and `rules.py`, one family per file.

    loop = create("llama_padded", Setting(seed=0))
    loop.run(24, ended=lambda: None)

They run on the stub CUDA runtime, whose kernels compute nothing, so no loop depends on a value.
Lengths, routing and shapes are drawn from the seed. This module needs only the standard library;
`create` imports torch and the other packages of the family.
"""

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from workloads.job import StubJob

if TYPE_CHECKING:
    from loops.loop import Loop

FAMILIES = {
    "llama_fixed": "llama",
    "llama_padded": "llama",
    "llama_padded_checkpointing": "llama",
    "llama_accumulation": "llama",
    "llama_packed": "llama",
    "lora": "lora",
    "whisper": "whisper",
    "t5": "t5",
    "bert_grad_scaler": "bert",
    "mixture_of_experts": "mixture",
    "fine_experts": "mixture",
    "recurrent": "recurrent",
    "diffusion_ema": "diffusion",
    "decoding": "decoding",
    "gan_lazy": "gan",
    "detection": "detection",
    "rollouts": "rollouts",
    "growing_images": "images",
    "graph_batches": "graphs",
    "trainer": "trainer",
    "trainer_callback": "trainer",
    "two_models": "two_models",
    "serving": "serving",
    "generating": "serving",
}
"""Module of each loop. Its `LOOPS` maps the loop's name to its class."""

NAMES = tuple(FAMILIES)

OWN = {"gpt_any_length": "gpt"}
"""Module of each loop that only `rules.py` measures, with networks from `workloads`."""

TITLES = {
    "llama_fixed": "Llama, 512 tokens",
    "llama_padded": "Llama, padded to the longest of each batch",
    "llama_padded_checkpointing": "the same, checkpointing",
    "llama_accumulation": "Llama, 4 micro-batches of any length, checkpointing",
    "llama_packed": "Llama, documents packed into 4,096 tokens",
    "lora": "LoRA, padded, checkpointing",
    "whisper": "Whisper (fixed encoder, any decoder length)",
    "t5": "T5, any lengths on both sides",
    "bert_grad_scaler": "BERT, float16 and GradScaler, padded",
    "mixture_of_experts": "mixture of 8 experts, 2 at random",
    "fine_experts": "mixture of 64 experts, 8 at random",
    "recurrent": "LSTM, unrolled by hand over any length",
    "diffusion_ema": "diffusion U-Net with EMA",
    "decoding": "LLM decoding with a growing cache",
    "gan_lazy": "GAN with lazy regularisation",
    "detection": "detection, images of any size",
    "rollouts": "PPO: rollouts of any length, three epochs each",
    "growing_images": "a ResNet on images that grow every four iterations, with EMA",
    "graph_batches": "graph batches of any number of nodes",
    "trainer": "HF Trainer, BERT, padding, accumulation 2, evaluation",
    "trainer_callback": "the same with pgmo's callback",
    "two_models": "two models in turn",
    "serving": "a server of embeddings, up to three requests at a time",
    "generating": "a server that decodes, the same",
}

T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """Size and random seed of a loop.

    Args:
        seed: seed of lengths, routing and sizes.
        small: whether a few thin layers replace the real network, for tests.
    """

    seed: int = 0
    small: bool = False

    def choose(self, real: T, small: T) -> T:
        return small if self.small else real


@dataclass(frozen=True)
class LoopJob(StubJob):
    """One run of a loop.

    Args:
        loop: one of `NAMES`, or of `OWN`.
        seed: seed of lengths, routing and sizes.
        iterations: number of iterations.
        off: values that replace defaults of `pgmo.allocator.heuristics`, by name.
    """

    loop: str
    seed: int = 0
    iterations: int = 24
    off: dict[str, float] = field(default_factory=dict)


def create(name: str, setting: Setting) -> "Loop":
    """Build the loop's models and optimizers on the current CUDA device.

    Raises:
        ModuleNotFoundError: if a package that the family needs is not installed.
    """
    made: Loop = family(name).LOOPS[name](setting)
    return made


def family(name: str) -> "object":
    """Import the module of a loop, and return it."""
    return importlib.import_module(f"loops.{(FAMILIES | OWN)[name]}")
