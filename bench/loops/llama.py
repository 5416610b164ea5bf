"""A Llama of 12 layers, 1,024 wide: lengths fixed, padded or packed, micro-batches of any length.

The Llama has 200 million parameters, and is trained with AdamW under autocast to bfloat16, with
clipped gradients. The model is that of transformers, with random weights.
"""

from typing import ClassVar

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from loops import Setting
from loops.loop import BFLOAT16, Loop, adamw, loaded, longest_of_batch, zeros

BATCH = 8


def llama(setting: Setting, *, cache: bool = False) -> LlamaForCausalLM:
    """Build the model on the device, in training mode."""
    width, layers, words = setting.choose((1024, 12, 32000), (128, 2, 512))
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=width * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 128,
        max_position_embeddings=4096,
        use_cache=cache,
        attn_implementation="sdpa",
    )
    with torch.device("cuda"):
        made = LlamaForCausalLM(config)
    made.train()
    return made


class Llama(Loop):
    """Language modelling with batches padded to their longest sample; base of the other loops."""

    checkpointing: ClassVar[bool] = False
    accumulation: ClassVar[int] = 1

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.model = self.build()
        if self.checkpointing:
            reentrant = {"use_reentrant": False}
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=reentrant)
        self.optimizer = adamw([self.model], fused=True)

    def build(self) -> nn.Module:
        return llama(self.setting)

    def length(self) -> int:
        """Draw the length of the next batch, in tokens."""
        longest = self.setting.choose(1024, 64)
        return longest_of_batch(self.chance, BATCH, longest, median=longest / 5)

    def step(self, iteration: int) -> None:
        made = loaded if iteration % 2 else zeros
        for _ in range(self.accumulation):
            tokens = made(BATCH, self.length())
            with torch.autocast("cuda", BFLOAT16):
                loss = self.model(input_ids=tokens, labels=tokens).loss
            (loss / self.accumulation).backward()
            del loss, tokens
        self.update()

    def update(self) -> None:
        trained = [one for one in self.model.parameters() if one.requires_grad]
        nn.utils.clip_grad_norm_(trained, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


class Fixed(Llama):
    """Batches of 512 tokens."""

    def length(self) -> int:
        """Return the length of each batch, in tokens."""
        return self.setting.choose(512, 32)


class Checkpointing(Llama):
    """Padded batches, with recomputation of every layer."""

    checkpointing = True


class Accumulation(Checkpointing):
    """Four micro-batches per step, each padded to its own longest sample."""

    accumulation = 4


class Packed(Llama):
    """Documents of any length, packed into batches of at most 4,096 tokens."""

    def step(self, iteration: int) -> None:
        budget, median = self.setting.choose((4096, 300.0), (256, 40.0))
        total = 0
        while True:
            document = max(8, int(median * self.chance.lognormvariate(0.0, 0.8)))
            if total + document > budget:
                break
            total += document
        # If the first document exceeds the budget, it is cut.
        tokens = zeros(1, total or budget)
        with torch.autocast("cuda", BFLOAT16):
            loss = self.model(input_ids=tokens, labels=tokens, position_ids=tokens).loss
        loss.backward()
        self.update()
