"""Whisper small under autocast, on made-up sounds and texts."""

import torch
from loop import arguments, train
from torch import Tensor, nn
from transformers import WhisperConfig, WhisperForConditionalGeneration

given = arguments()
width, layers, heads, frames = (64, 1, 2, 64) if given.small else (768, 12, 12, 1500)
config = WhisperConfig(
    vocab_size=600 if given.small else 51865,
    d_model=width,
    encoder_layers=layers,
    decoder_layers=layers,
    encoder_attention_heads=heads,
    decoder_attention_heads=heads,
    encoder_ffn_dim=4 * width,
    decoder_ffn_dim=4 * width,
    max_source_positions=frames,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
)
length = 16 if given.small else 128


def loss(model: nn.Module, batch: int) -> Tensor:
    """Return the cross entropy of the next tokens."""
    sounds = torch.randn(batch, config.num_mel_bins, 2 * frames).cuda()
    texts = torch.randint(3, config.vocab_size, (batch, length)).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        return model(input_features=sounds, labels=texts).loss


train(given, WhisperForConditionalGeneration(config), loss)
