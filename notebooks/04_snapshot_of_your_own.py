# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: -all
#     formats: ipynb,py:percent
#     notebook_metadata_filter: kernelspec,jupytext,-jupytext.text_representation.jupytext_version,-all
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
# # A snapshot of your own
#
# A *memory snapshot* is PyTorch's record of the requests and frees of its CUDA allocator. This
# notebook reads a snapshot, makes a plan for it, and shows the report.
#
# On a machine with a GPU, record a snapshot of a few iterations like this, without pgmo:
#
# ```python
# torch.cuda.memory._record_memory_history(max_entries=1_000_000)
# for batch, _ in zip(loader, range(3), strict=False):
#     train_step(batch)
# torch.cuda.memory._dump_snapshot("snapshot.pickle")
# torch.cuda.memory._record_memory_history(enabled=None)
# ```
#
# Assign the path of your file to `FILE`. If `FILE` is None, the notebook makes a small snapshot, for which it needs no GPU.

# %%
FILE = None

# %% [markdown]
# ## Contents of a snapshot
#
# A snapshot is a dictionary. `device_traces` has the events of each device in order, `segments` the segments that were
# reserved at the end. Here a simple allocator writes the events of a made-up network. The allocator reserves segments of
# 20 MiB, and serves each request from the first gap that is large enough.

# %%
import pickle

MIB = 2**20
SEGMENT = 20 * MIB


class Recorder:
    def __init__(self):
        self.events, self.living, self.segments = [], {}, 0

    def note(self, action, address, size, code="??"):
        frames = [{"name": code, "filename": "train.py", "line": 7}]
        event = {"action": action, "addr": address, "size": size, "stream": 0, "frames": frames}
        self.events.append({**event, "time_us": len(self.events)})

    def alloc(self, size, code):
        address = next(self.gaps(size))
        if address + size > self.segments * SEGMENT + MIB:
            self.note("segment_alloc", self.segments * SEGMENT + MIB, SEGMENT)
            address = self.segments * SEGMENT + MIB
            self.segments += 1
        self.note("alloc", address, size, code)
        self.living[address] = size
        return address

    def gaps(self, size):
        for number in range(self.segments):
            begin = number * SEGMENT + MIB
            ends = sorted(at for at in self.living if begin <= at < begin + SEGMENT)
            for taken in [*ends, begin + SEGMENT]:
                if taken - begin >= size:
                    yield begin
                begin = taken + self.living.get(taken, 0)
        yield self.segments * SEGMENT + MIB

    def free(self, address):
        size = self.living.pop(address)
        self.note("free_requested", address, size)
        self.note("free_completed", address, size)

    def snapshot(self):
        segments = []
        for number in range(self.segments):
            begin = number * SEGMENT + MIB
            blocks = [
                {"address": at, "size": size, "requested_size": size, "state": "active_allocated"}
                for at, size in sorted(self.living.items())
                if begin <= at < begin + SEGMENT
            ]
            segments.append(
                {
                    "device": 0,
                    "address": begin,
                    "total_size": SEGMENT,
                    "stream": 0,
                    "blocks": blocks,
                }
            )
        return {"segments": segments, "device_traces": [self.events]}


def iteration(recorder, layers):
    activations = []
    for size in layers:
        workspace = recorder.alloc(size // 2, "forward")
        activations.append(recorder.alloc(size, "forward"))
        recorder.free(workspace)
    for size, activation in zip(reversed(layers), reversed(activations), strict=True):
        gradient = recorder.alloc(size, "backward")
        recorder.free(activation)
        recorder.free(gradient)


if FILE is None:
    FILE = "snapshot.pickle"
    recorder = Recorder()
    for _ in range(4):
        iteration(recorder, [n * MIB for n in (9, 3, 7, 5, 3, 9, 1, 5)])
    with open(FILE, "wb") as file:
        pickle.dump(recorder.snapshot(), file)
    print(len(recorder.events), "events,", recorder.segments, "segments")

# %% [markdown]
# ## Read the file
#
# A snapshot is a pickle, and unpickling can run any code. pgmo's own unpickler creates only plain
# data and refuses everything else. pgmo finds the iterations by itself.

# %%
from pathlib import Path

from pgmo.cli.main import main

profile_file = Path(FILE).with_suffix(".pgmoprof")
assert main(["export", str(FILE), "--to", "profile", "-o", str(profile_file), "--force"]) == 0

# %%
import pgmo

profile = pgmo.Profile.load(profile_file)
profile

# %% [markdown]
# ## Plan
#
# The arena is the memory that one iteration needs with this plan. Offsets on CUDA devices are multiples of 512 bytes.

# %%
from pgmo.units import format_bytes

plan = pgmo.plan(profile)
print("largest sum of live blocks", format_bytes(plan.max_load))
print("arena of the plan         ", format_bytes(plan.arena))
assert plan.arena >= plan.max_load
plan

# %% [markdown]
# ## Bytes that PyTorch reserves
#
# A model of PyTorch's caching allocator computes the bytes that PyTorch would reserve if this
# iteration repeats: with its default settings, and with expandable segments.

# %%
from pgmo.profiler.caching.model import AllocatorSettings, simulate_profile

for name, settings in {
    "default": AllocatorSettings(),
    "expandable segments": AllocatorSettings(expandable_segments=True),
}.items():
    usage = simulate_profile(profile, settings)
    reserved, live = format_bytes(usage.peak_reserved), format_bytes(usage.peak_active)
    print(f"{name:20} {reserved}, of which live: {live}")
    assert usage.peak_reserved >= usage.peak_active

# %% [markdown]
# ## Report
#
# The report shows every block with its offset and lifetime. `pgmo report FILE` writes the same page to a file.

# %%
profile.show(plan)
