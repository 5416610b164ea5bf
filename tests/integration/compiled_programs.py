"""Training loops with compiled code, and Dynamo's counters after them.

    python -m tests.integration.compiled_programs NAME            plain
    python -m tests.integration.compiled_programs NAME session    in a session with tags
    pgmo run -m tests.integration.compiled_programs NAME

Prints one JSON object: losses and weights to the last bit, and Dynamo's counters.
"""

import contextlib
import json
import sys
import warnings

import torch
import torch._dynamo
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import pgmo
from tests.same_bits import bits

STEPS = 9


def network(width=16):
    return nn.Sequential(
        nn.Linear(8, width), nn.GELU(), nn.LayerNorm(width), nn.Dropout(0.1), nn.Linear(width, 8)
    )


class Blocks(nn.Module):
    """A model of two blocks, which may be compiled, checkpointed, or have a graph break between."""

    def __init__(self, compiled=False, checkpointed=False, breaks=False):
        super().__init__()
        blocks = [network() for _ in range(2)]
        self.blocks = nn.ModuleList(map(compile_, blocks) if compiled else blocks)
        self.checkpointed, self.breaks = checkpointed, breaks

    def forward(self, x):
        x = self.block(0, x)
        if self.breaks:  # not in a loop, after which Dynamo would not resume
            torch._dynamo.graph_break()
        return self.block(1, x)

    def block(self, number, x):
        block = self.blocks[number]
        return x + (checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x))


def compile_(what, **options):
    return torch.compile(what, **{"backend": "aot_eager", **options})


class Loop:
    """A training loop, whose parts programs replace."""

    def __init__(self, model, call=None, optimizer=torch.optim.AdamW):
        self.model, self.call = model, model if call is None else call
        self.optimizer = optimizer(model.parameters(), lr=1e-3)
        self.update = self.optimizer.step
        self.losses = []

    def batch(self, _step):
        return torch.randn(4, 8)

    def loss(self, batch):
        return self.call(batch).square().mean()

    def train(self, batch):
        loss = self.loss(batch)
        loss.backward()
        self.update()
        self.optimizer.zero_grad()
        return loss.detach()

    def after(self, _step):
        """Do nothing after a step; programs replace this method."""


PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


@program
def whole_model():
    model = network()
    return Loop(model, compile_(model))


@program
def inductor_with_planned_memory():
    """Return a loop of a student and a teacher, whose buffers Inductor puts into pools."""
    teacher = nn.Sequential(nn.Linear(8, 64), nn.Softmax(-1), nn.Linear(64, 8), nn.LayerNorm(8))
    options = {"backend": "inductor", "options": {"memory_planning": True}}
    taught, loop = compile_(teacher, **options), Loop(model := network())
    loop.call = compile_(model, **options)

    def loss(batch):
        with torch.no_grad():
            target = taught(batch)
        return functional.mse_loss(loop.call(batch), target)

    loop.loss = loss
    return loop


@program
def dynamic():
    """Return a loop of a model that is compiled once for all lengths."""
    model = network()
    loop = Loop(model, compile_(model, backend="inductor", dynamic=True))
    loop.batch = lambda step: torch.randn(4 + 2 * (step % 4), 8)
    return loop


@program
def compiled_again_after_some_steps():
    """Return a loop in which a guard fails after step 5, so that another graph follows."""
    model = network()
    scale = [1]
    loop = Loop(model)
    loop.loss = compile_(lambda batch: (model(batch) * scale[0]).square().mean())
    loop.after = lambda step: scale.__setitem__(0, 2) if step == 5 else None
    return loop


@program
def in_place():
    model = Blocks()
    model.compile(backend="aot_eager")
    return Loop(model)


@program
def block_by_block_recomputed():
    return Loop(Blocks(compiled=True, checkpointed=True))


@program
def recomputed_inside():
    model = Blocks(checkpointed=True)
    return Loop(model, compile_(model))


@program
def graph_breaks():
    model = Blocks(breaks=True)
    return Loop(model, compile_(model))


@program
def nested():
    model = Blocks(compiled=True)
    return Loop(model, compile_(model))


@program
def compiled_late():
    """Return a loop that compiles its model in the middle of a recorded step."""
    model = network()
    loop = Loop(model)

    def loss(batch):
        if len(loop.losses) == 2:
            loop.call = compile_(model)
        return loop.call(batch).square().mean()

    loop.loss = loss
    return loop


@program
def optimizers_method_compiled():
    loop = Loop(network(), optimizer=torch.optim.Adam)
    loop.update = compile_(loop.optimizer.step)
    return loop


@program
def evaluated_between():
    model = network()
    loop = Loop(model, compile_(model))

    def evaluate(step):
        if step % 3 == 2:
            model.eval()
            with torch.no_grad():
                loop.losses.append(loop.call(torch.ones(2, 8)).mean())
            model.train()

    loop.after = evaluate
    return loop


@program
def own_hooks():
    """Return a loop with a hook of its own on all modules."""
    model = network()
    loop = Loop(model, compile_(model))
    seen = []
    nn.modules.module.register_module_forward_hook(lambda *_: seen.append(1))
    loop.after = lambda _: loop.losses.append(torch.tensor(float(len(seen))))
    return loop


@program
def whole_step():
    """Return a loop of a compiled step, with a graph break at the backward pass."""
    loop = Loop(network(), optimizer=torch.optim.SGD)
    loop.train = compile_(loop.train)
    return loop


@program
def a_part_that_is_not_compiled():
    model = Blocks()
    model.blocks[1] = torch.compiler.disable(model.blocks[1])
    return Loop(model, compile_(model))


@program
def operator_that_compiles_itself():
    def choose(x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    loop = Loop(network())
    loop.loss = lambda batch: functional.softplus(choose(loop.call(batch))).mean()
    return loop


def _summary_of(session):
    """Return the replayed iterations and the tags of a session."""
    profile = session.profile
    tags = profile.tags if profile else ()
    numbers = profile.tag[profile.tag >= 0].tolist() if profile else ()
    return {
        "replayed": session.summary().replayed,
        "tags": sorted({f"{tag.module} {tag.op}" for tag in tags}),
        "used": sorted({f"{tags[number].module} {tags[number].op}" for number in numbers}),
    }


def main(name, *modes):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        loop = PROGRAMS[name]()
        tags = "untagged" not in modes
        inside = pgmo.optimize(device="cpu", tags=tags) if modes else contextlib.nullcontext()
        with inside as session:
            for step in range(STEPS):
                loop.losses.append(loop.train(loop.batch(step)))
                loop.after(step)
                if session is not None:
                    session.step()
    counters = torch._dynamo.utils.counters
    found = {
        "losses": [loss.item().hex() for loss in loop.losses],
        "weights": bits(loop.model.parameters()),
        "breaks": sum(counters["graph_break"].values()),
        "graphs": counters["stats"]["unique_graphs"],
        "frames": dict(counters["frames"]),
        "warnings": sorted(
            {f"{one.message} {one.filename}" for one in warned if "pgmo:" not in str(one.message)}
        ),
    }
    if session is not None:
        found["session"] = _summary_of(session)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
