"""Decoding with a Llama whose cache of keys and values grows by one token at a time.

Each iteration is a request: a prompt of any length, and the tokens of an answer. The cache of
transformers grows by concatenation, so two caches of a layer are alive at a time.
"""

import random

import torch
from transformers import DynamicCache, LlamaForCausalLM

from loops import Setting
from loops.llama import llama
from loops.loop import Loop, zeros


@torch.no_grad()
def decode(model: LlamaForCausalLM, batch: int, prompt: int, answer: int) -> torch.Tensor:
    """Answer prompts; return tokens, shape (batch, prompt + answer)."""
    cache = DynamicCache()
    tokens = following = zeros(batch, prompt)
    for _ in range(answer):
        logits = model(input_ids=following, past_key_values=cache, use_cache=True).logits
        following = logits[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, following], dim=1)
    return tokens


def request(chance: random.Random, setting: Setting) -> tuple[int, int]:
    """Draw the number of tokens of a prompt, and of its answer."""
    longest, answers = setting.choose((768, 64), (48, 8))
    return chance.randint(longest // 24, longest), chance.randint(answers // 4, answers)


class Decoding(Loop):
    """Generation of sixteen answers at a time, with weights in bfloat16."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.model = llama(setting, cache=True).to(torch.bfloat16).eval()

    def step(self, iteration: int) -> None:
        decode(self.model, 16, *request(self.chance, self.setting))
