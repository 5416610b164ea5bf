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
# This notebook answers three questions about a training script and a GPU that this machine does not have.
# Does the script fit, with which batch, and how long does a step take? pgmo *rehearses* the script: it runs
# a few iterations with PyTorch's real allocator on a CUDA runtime that computes nothing. A rehearsal needs
# a CUDA build of PyTorch, but no GPU.

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
# `vary` is the option of the batch. pgmo rehearses two small batches, predicts the requests of larger ones,
# and rehearses the largest batch that fits on the card. Without a CUDA build of PyTorch, the error states
# what to install.

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
# The bytes that are live at the peak, by category:

# %%
if answer is not None:
    need = answer.need
    for name, size in need.categories.items():
        print(f"{name:16} {size / 2**20:9.1f} MiB")
    assert sum(need.categories.values()) <= need.allocated_peak

# %% [markdown]
# ## Cards
#
# A program can use the memory that CUDA reports, which is less than the label of the card.

# %%
for card in sorted(all_cards(), key=lambda card: card.usable / card.memory)[:5]:
    print(f"{card.name:14} {card.memory / 2**30:6.1f} GiB {card.usable / 2**30:6.1f} GiB usable")

card = find("A100-40GB")
print(card.usable_source)
assert card.usable < card.memory

# %% [markdown]
# ## Time
#
# Without a measured step, pgmo computes a lower bound of the time. An operator takes at least as long as its
# arithmetic at the card's peak rate, and as its memory traffic at the card's bandwidth. For one matrix product:

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
# `accumulate(batch, most)` splits a batch into the fewest equal micro-batches of at most `most` samples.

# %%
from pgmo.fit import accumulate

micro, steps = accumulate(256, 37)
print(f"{steps} micro-batches of {micro}")
assert micro * steps == 256
