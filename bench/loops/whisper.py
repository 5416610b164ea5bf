"""Whisper base, with sounds of 30 seconds and texts of any length."""

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from loops import Setting
from loops.loop import BFLOAT16, Loop, adamw, loaded, zeros


class Whisper(Loop):
    """Training of six layers on each side, 512 wide, with eight samples per batch."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        width, layers = setting.choose((512, 6), (64, 1))
        config = WhisperConfig(
            d_model=width,
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_attention_heads=width // 64,
            decoder_attention_heads=width // 64,
            encoder_ffn_dim=4 * width,
            decoder_ffn_dim=4 * width,
            max_source_positions=setting.choose(1500, 100),
            use_cache=False,
            attn_implementation="sdpa",
        )
        with torch.device("cuda"):
            self.model = WhisperForConditionalGeneration(config)
        self.model.train()
        self.optimizer = adamw([self.model])

    def step(self, iteration: int) -> None:
        frames = self.setting.choose(3000, 200)
        sound = loaded(8, 80, frames, kind=torch.float32)
        text = zeros(8, self.chance.randint(20, self.setting.choose(300, 40)))
        with torch.autocast("cuda", BFLOAT16):
            loss = self.model(input_features=sound, labels=text).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
