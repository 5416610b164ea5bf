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
# A training loop asks its allocator for the same blocks in the same order every iteration. pgmo watches a
# few iterations, computes where every block should have been, and serves all later ones from one arena.
#
# This notebook trains a small network on the CPU. With a GPU the same code runs there.

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
# Two lines more than without pgmo: `pgmo.optimize()` around the loop, `session.iteration()` around each of
# its turns.

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
# `session.history` has an entry for each iteration: first they are recorded, then replayed.

# %%
for number, one in enumerate(session.history):
    print(f"{number:2}  {one.phase:8} {one.hits:4} of {one.requests:4} requests from slots")

# %%
assert session.history[-1].hit_rate > 0.9

# %% [markdown]
# The plan that was replayed, in one line: how many blocks have a slot, the arena, and the max load. `session.plan.show()`
# draws each block at its place.

# %%
session.plan

# %% [markdown]
# pgmo changes where blocks lie and nothing else. The same training without it gives the same losses:

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
