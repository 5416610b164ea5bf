"""BERT base in float16 with a gradient scaler, padded to the longest sample of each batch."""

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from loops import Setting
from loops.loop import Loop, adamw, loaded, longest_of_batch


def bert(setting: Setting, layers: int = 12) -> BertForSequenceClassification:
    """Build the classifier on the host, with width 768."""
    width, words = setting.choose((768, 30522), (64, 512))
    config = BertConfig(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=setting.choose(layers, 2),
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        attn_implementation="sdpa",
    )
    return BertForSequenceClassification(config)


class Bert(Loop):
    """Training with sixteen samples per batch, and a mask for the padding."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        with torch.device("cuda"):
            self.model = bert(setting)
        self.model.train()
        self.optimizer = adamw([self.model])
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, iteration: int) -> None:
        longest = self.setting.choose(512, 48)
        length = longest_of_batch(self.chance, 16, longest, median=longest / 4)
        tokens, mask, labels = loaded(16, length), loaded(16, length), loaded(16)
        with torch.autocast("cuda", torch.float16):
            loss = self.model(input_ids=tokens, attention_mask=mask, labels=labels).loss
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
