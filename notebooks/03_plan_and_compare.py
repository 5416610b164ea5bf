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
# # Plan and compare
#
# A plan gives each block an offset, so that blocks that are live at the same time do not overlap. This
# notebook makes several plans of one profile. It compares them with each other, and with the max load,
# which no plan can beat.

# %%
import numpy as np
import torch

import pgmo

torch.manual_seed(0)
network = torch.nn.Sequential(
    *(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU()),
    *(torch.nn.Conv2d(16, 32, 3, stride=2, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU()),
    *(torch.nn.Conv2d(32, 64, 3, stride=2, padding=1), torch.nn.BatchNorm2d(64), torch.nn.ReLU()),
    *(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10)),
)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
with pgmo.optimize(device="cpu", model_name="convolutions") as session:
    for _ in range(8):
        with session.iteration():
            network(torch.randn(8, 3, 32, 32)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

profile = session.profile
profile

# %% [markdown]
# ## Packers
#
# The max load is the largest sum of bytes that are live at once. `gap` is the relative excess of a plan over
# the max load.

# %%
from pgmo.packing.solving.packer import PACKERS

plans = {name: pgmo.plan(profile, solver=name) for name in PACKERS}
for name, plan in sorted(plans.items(), key=lambda item: item[1].arena):
    print(f"{name:24} {plan.arena:9} bytes, {plan.gap:7.2%} above the max load")
assert all(plan.arena >= plan.max_load for plan in plans.values())

# %% [markdown]
# ## With time to search
#
# `effort="best"` improves the best plan of the packers until it is proved optimal, or the time is over.
# `trace` has each better plan with its time and solver. `bound` is a proved lower bound.

# %%
best = pgmo.plan(profile, effort="best", time_limit=2)
for event in best.trace:
    print(f"{event.seconds:6.3f} s  {event.arena:9} bytes  by {event.solver}")
print("no plan is below", best.bound, "bytes; this one is", best.arena)
best

# %%
assert best.arena <= min(plan.arena for plan in plans.values())

# %% [markdown]
# ## Without a plan
#
# For comparison, an allocator that does not know later requests takes the lowest gap that is large enough
# for each request. The simulation runs over three iterations, so that blocks of the previous iteration are live, too.


# %%
def first_fit(profile, alignment=64):
    living, top = [], 0
    for turn in range(3):
        for row in np.argsort(profile.start):
            if profile.turns[row] == 0:
                continue
            now = int(profile.start[row]) + turn * profile.ticks
            living = [one for one in living if one[2] > now]
            size = -(-int(profile.size[row]) // alignment) * alignment
            offset = 0
            for low, high, _ in sorted(living):
                if low - offset >= size:
                    break
                offset = max(offset, high)
            living.append((offset, offset + size, int(profile.end[row]) + turn * profile.ticks))
            top = max(top, offset + size)
    return top


online = first_fit(profile)
print(f"first fit: {online} bytes, {online / best.max_load - 1:.2%} above the max load")
print(f"planned:   {best.arena} bytes, {best.gap:.2%}")
assert online >= best.max_load

# %% [markdown]
# ## Save the plan
#
# `Plan.load` validates the plan when it reads the file.

# %%
best.save("convolutions.pgmoplan")
again = pgmo.Plan.load("convolutions.pgmoplan")
assert (again.offset == best.offset).all()
again
