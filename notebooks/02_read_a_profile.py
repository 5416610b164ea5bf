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
# A profile is what one iteration allocates: for each block its size, when it was requested and freed, and
# who asked for it. Here one is recorded, and read as columns, and by its peak.

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
# In one line: how many blocks there are, in how many requests, and the most bytes that are alive at once.

# %%
profile

# %% [markdown]
# ## Columns
#
# Time is counted in ticks: a tick is the ordinal of a request. A block requested by request `i` and freed
# before request `j` lives `[i, j)`. An end beyond `profile.ticks` lies in the next iteration.

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
# ## Who holds the peak
#
# The blocks that are alive at the tick of the largest load. Their sizes add up to the max load exactly.

# %%
from pgmo.report.findings.attribution import find_peak
from pgmo.units import format_bytes

peak = find_peak(profile)
for holder in peak.modules:
    print(f"{format_bytes(holder.size):>10} {holder.size / peak.size:7.1%}  {holder.name}")
assert sum(holder.size for holder in peak.modules) == peak.size == profile.max_load()

# %% [markdown]
# By phase, most of it is activations, which the forward pass makes and the backward pass needs:

# %%
for holder in peak.phases:
    print(f"{format_bytes(holder.size):>10} {holder.size / peak.size:7.1%}  {holder.name}")

# %% [markdown]
# The command line says the same of a saved profile:

# %%
from pgmo.cli.main import main

profile.save("network.pgmoprof")
assert main(["stats", "network.pgmoprof", "--top", "5"]) == 0

# %% [markdown]
# The whole report, with every block at its place, opens inside of the notebook:

# %%
profile.show()
