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

LOOPS = {
    "llama_fixed": ("llama.Fixed", "Llama, 512 tokens"),
    "llama_padded": ("llama.Llama", "Llama, padded to the longest of each batch"),
    "llama_padded_checkpointing": ("llama.Checkpointing", "the same, checkpointing"),
    "llama_accumulation": (
        "llama.Accumulation",
        "Llama, 4 micro-batches of any length, checkpointing",
    ),
    "llama_packed": ("llama.Packed", "Llama, documents packed into 4,096 tokens"),
    "lora": ("lora.LoRA", "LoRA, padded, checkpointing"),
    "whisper": ("whisper.Whisper", "Whisper (fixed encoder, any decoder length)"),
    "t5": ("t5.T5", "T5, any lengths on both sides"),
    "bert_grad_scaler": ("bert.Bert", "BERT, float16 and GradScaler, padded"),
    "mixture_of_experts": ("mixture.MixtureOfExperts", "mixture of 8 experts, 2 at random"),
    "fine_experts": ("mixture.FineMixtureOfExperts", "mixture of 64 experts, 8 at random"),
    "recurrent": ("recurrent.Recurrent", "LSTM, unrolled by hand over any length"),
    "diffusion_ema": ("diffusion.Diffusion", "diffusion U-Net with EMA"),
    "decoding": ("decoding.Decoding", "LLM decoding with a growing cache"),
    "gan_lazy": ("gan.LazyGAN", "GAN with lazy regularisation"),
    "detection": ("detection.Detection", "detection, images of any size"),
    "rollouts": ("rollouts.Rollouts", "PPO: rollouts of any length, three epochs each"),
    "growing_images": (
        "images.GrowingImages",
        "a ResNet on images that grow every four iterations, with EMA",
    ),
    "graph_batches": ("graphs.GraphBatches", "graph batches of any number of nodes"),
    "trainer": ("trainer.WithTrainer", "HF Trainer, BERT, padding, accumulation 2, evaluation"),
    "trainer_callback": ("trainer.WithCallback", "the same with pgmo's callback"),
    "two_models": ("two_models.TwoModels", "two models in turn"),
    "serving": ("serving.Embedding", "a server of embeddings, up to three requests at a time"),
    "generating": ("serving.Generating", "a server that decodes, the same"),
}
"""Class of each loop with its module, and its title."""

FAMILIES = {name: kind.partition(".")[0] for name, (kind, _) in LOOPS.items()}
TITLES = {name: title for name, (_, title) in LOOPS.items()}
NAMES = tuple(LOOPS)

OWN = {"gpt_any_length": "gpt.GPT"}
"""Class of each loop that only `rules.py` measures, with networks from `workloads`."""

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
    kind = class_of(name).partition(".")[2]
    made: Loop = getattr(family(name), kind)(setting)
    return made


def class_of(name: str) -> str:
    return OWN[name] if name in OWN else LOOPS[name][0]


def family(name: str) -> "object":
    """Import the module of a loop, and return it."""
    return importlib.import_module(f"loops.{class_of(name).partition('.')[0]}")
