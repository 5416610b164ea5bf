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
# # Quick start
#
# A training loop requests the same blocks in the same order in every iteration. pgmo records a few
# iterations, computes an offset for every block, and serves later iterations from one arena.
#
# This notebook trains a small network on the CPU. With a GPU, move the model and the batches to the device,
# and pass `device="cuda"`.

# %%
import torch

import pgmo


def training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)
    )
    optimizer = torch.optim.Adam(model.parameters())
    loader = [(torch.randn(64, 256), torch.randint(10, (64,))) for _ in range(20)]
    return model, optimizer, loader


# %% [markdown]
# pgmo adds two lines: `pgmo.optimize()` around the loop, and `session.iteration()` around each iteration.

# %%
model, optimizer, loader = training()
losses = []
with pgmo.optimize(device="cpu", model_name="mlp") as session:
    for inputs, targets in loader:
        with session.iteration():
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())

session

# %% [markdown]
# `session.history` has an entry for each iteration. The first iterations are recorded, later ones are
# replayed.

# %%
for number, one in enumerate(session.history):
    print(f"{number:2}  {one.phase:8} {one.hits:4} of {one.requests:4} requests from slots")

# %%
assert session.history[-1].hit_rate > 0.9

# %% [markdown]
# The replayed plan in one line: the number of planned blocks, the size of the arena, and the max load.
# `session.plan.show()` draws each block at its offset.

# %%
session.plan

# %% [markdown]
# pgmo changes only the addresses of blocks. The same training without pgmo gives the same losses:

# %%
model, optimizer, loader = training()
without = []
for inputs, targets in loader:
    loss = torch.nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    without.append(loss.item())
assert without == losses
