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
# # Read a profile
#
# A profile has the blocks of one iteration: the size of each block, the ticks at which it is requested and
# freed, and a tag with its origin. This notebook records a profile, reads its columns, and analyses its peak.

# %%
import numpy as np
import torch

import pgmo

torch.manual_seed(0)


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wide = torch.nn.Linear(width, 4 * width)
        self.narrow = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.narrow(torch.nn.functional.gelu(self.wide(x)))


class Network(torch.nn.Module):
    def __init__(self, width=128, depth=4):
        super().__init__()
        self.blocks = torch.nn.Sequential(*(Block(width) for _ in range(depth)))

    def forward(self, x):
        return self.blocks(x).square().mean()


network = Network()
optimizer = torch.optim.AdamW(network.parameters())
with pgmo.optimize(device="cpu", model_name="network", tags=True) as session:
    for _ in range(8):
        with session.iteration():
            network(torch.randn(256, 128)).backward()
            optimizer.step()
            optimizer.zero_grad()

profile = session.profile

# %% [markdown]
# The profile in one line: the number of blocks, the number of requests (ticks), and the max load, which is
# the largest sum of bytes that are live at once.

# %%
profile

# %% [markdown]
# ## Columns
#
# A tick is the ordinal of a request. A block that is requested by request `i` and freed before request `j`
# has the lifetime `[i, j)`. An end beyond `profile.ticks` is in the next iteration.

# %%
for row in np.argsort(-profile.size, kind="stable")[:5]:
    tag = profile.tags[profile.tag[row]]
    print(
        f"{profile.size[row]:9} bytes, alive in [{profile.start[row]}, {profile.end[row]})"
        f"  {tag.phase:9} {tag.op:20} {tag.module}"
    )

# %%
print("live into the next iteration:", int(profile.wrap.sum()))
print("never freed:                 ", int(profile.persistent.sum()))
print("max load:                    ", profile.max_load(), "bytes")
assert profile.max_load() == profile.load_curve().max()

# %% [markdown]
# ## Blocks at the peak
#
# The peak is the tick with the largest sum of live bytes. The sizes of the blocks that are live at the peak
# add up to the max load.

# %%
from pgmo.report.findings.attribution import find_peak
from pgmo.units import format_bytes

peak = find_peak(profile)
for holder in peak.modules:
    print(f"{format_bytes(holder.size):>10} {holder.size / peak.size:7.1%}  {holder.name}")
assert sum(holder.size for holder in peak.modules) == peak.size == profile.max_load()

# %% [markdown]
# Most of these bytes are allocated in the forward pass: activations that the backward pass needs.

# %%
for holder in peak.phases:
    print(f"{format_bytes(holder.size):>10} {holder.size / peak.size:7.1%}  {holder.name}")

# %% [markdown]
# `pgmo stats` prints the same figures for a saved profile:

# %%
from pgmo.cli.main import main

profile.save("network.pgmoprof")
assert main(["stats", "network.pgmoprof", "--top", "5"]) == 0

# %% [markdown]
# The report opens in the notebook. It shows every block at its address and lifetime:

# %%
profile.show()
