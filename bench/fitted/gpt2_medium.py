"""GPT-2 medium on made-up tokens."""

from loop import arguments, language_loss, train
from transformers import GPT2Config, GPT2LMHeadModel

given = arguments()
sizes = (
    {"n_embd": 64, "n_layer": 2, "n_head": 2}
    if given.small
    else {"n_embd": 1024, "n_layer": 24, "n_head": 16}
)
config = GPT2Config(vocab_size=500 if given.small else 50257, **sizes)
length = 256 if given.small else 512
train(given, GPT2LMHeadModel(config), language_loss(config.vocab_size, length))
