"""T5 base, with texts of any length on both sides, and position biases for each length."""

import torch
from torch import nn
from transformers import T5Config, T5ForConditionalGeneration

from loops import Setting
from loops.loop import BFLOAT16, Loop, adamw, loaded, longest_of_batch


class T5(Loop):
    """Training of twelve layers on each side, 768 wide, with eight samples per batch."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        width, layers, words = setting.choose((768, 12, 32128), (64, 2, 512))
        config = T5Config(
            vocab_size=words,
            d_model=width,
            d_ff=4 * width,
            num_layers=layers,
            num_heads=width // 64,
            use_cache=False,
            decoder_start_token_id=0,
        )
        with torch.device("cuda"):
            self.model = T5ForConditionalGeneration(config)
        self.model.train()
        self.optimizer = adamw([self.model])

    def step(self, iteration: int) -> None:
        longest = self.setting.choose(512, 48)
        source = longest_of_batch(self.chance, 8, longest, median=longest / 4)
        target = longest_of_batch(self.chance, 8, longest // 2, median=longest / 12)
        with torch.autocast("cuda", BFLOAT16):
            loss = self.model(input_ids=loaded(8, source), labels=loaded(8, target)).loss
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
