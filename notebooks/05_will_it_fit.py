# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: -all
#     formats: ipynb,py:percent
#     notebook_metadata_filter: kernelspec,jupytext,-all
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Will it fit?
#
# A training script, a card that is not here, and three questions: does it fit, with which batch, and how long
# does it take. With a CUDA build of PyTorch the script is rehearsed: it runs for a few iterations on a CUDA
# runtime that computes nothing, with PyTorch's real allocator. No GPU is needed.

# %%
from pathlib import Path

import pgmo
from pgmo.cards import all_cards, find

script = Path("fitted_transformer.py")
script.write_text(
    """
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
given = parser.parse_args()
layer = nn.TransformerEncoderLayer(256, 4, batch_first=True)
network = nn.Sequential(nn.Embedding(1000, 256), nn.TransformerEncoder(layer, 4)).cuda()
optimizer = torch.optim.AdamW(network.parameters())
for _ in range(1000):
    tokens = torch.randint(1000, (given.batch_size, 128)).cuda()
    network(tokens).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
)

# %% [markdown]
# ## The largest batch
#
# `vary` names the option. Two small batches tell what a large one would ask for, and the largest that fits is
# rehearsed on the card. Where this environment has no CUDA build of PyTorch, pgmo says what to do.

# %%
try:
    answer = pgmo.fit(
        f"{script} --batch-size 8", card="8 GiB", vary="--batch-size {}", effective_batch=4096
    )
except pgmo.PgmoError as error:
    answer = None
    print(error)
else:
    print(answer.sentence)
    assert answer.batch > 8
script.unlink()

# %% [markdown]
# What is alive at the peak adds up to it:

# %%
if answer is not None:
    need = answer.need
    for name, size in need.categories.items():
        print(f"{name:16} {size / 2**20:9.1f} MiB")
    assert sum(need.categories.values()) <= need.allocated_peak

# %% [markdown]
# ## Cards
#
# What counts is what CUDA reports of a card, not its label.

# %%
for card in sorted(all_cards(), key=lambda card: card.usable / card.memory)[:5]:
    print(f"{card.name:14} {card.memory / 2**30:6.1f} GiB {card.usable / 2**30:6.1f} GiB usable")

card = find("A100-40GB")
print(card.usable_source)
assert card.usable < card.memory

# %% [markdown]
# ## Time
#
# Without a measured step there is a lower bound: each operator takes its arithmetic at the card's peak rate, or
# its traffic at the bandwidth of its memory, whichever is longer. Here for one product of matrices:

# %%
from pgmo.fit.what_if.timing import bound, in_words

size = 8192
product = [["bfloat16", 2 * size**3, 3 * 2 * size**2, 1]]
times = {name: bound(product, find(name)) for name in ("T4", "A100-40GB", "H100")}
for name, seconds in times.items():
    print(f"{name:10} at least {in_words(seconds)}")
assert times["H100"] < times["A100-40GB"] < times["T4"]

# %% [markdown]
# ## Accumulation
#
# A batch that does not fit is split into micro-batches that do, as few as possible.

# %%
from pgmo.fit import accumulate

micro, steps = accumulate(256, 37)
print(f"{steps} micro-batches of {micro}")
assert micro * steps == 256
