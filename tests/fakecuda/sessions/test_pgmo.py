"""Sessions with the CUDA build of PyTorch on the stub."""

import pytest

from tests.fakecuda.programs import run_program

MOVED = """
import json, pgmo, torch
from pgmo.allocator import heuristics
from workloads import Shape, create

# Else so small a program waits for room beside its weights.
heuristics.use(heuristics.Heuristics(price=0))
workload = create("gpt", Shape(batch=4, small=True))
def tensors():
    states = (s for state in workload.optimize.state.values() for s in state.values())
    return [t for t in (*workload.model.parameters(), *states) if t.is_cuda]

with pgmo.optimize(device="cuda") as session:
    for iteration in range(12):
        workload.step(64)
        if iteration == 0:
            # Kernels do nothing, so that these bytes stay unless somebody loses them.
            kept = [torch.randn(t.shape) for t in tensors()]
            for tensor, values in zip(tensors(), kept):
                tensor.data.copy_(values)
            before = [t.data_ptr() for t in tensors()]
        session.step()
after = [t.data_ptr() for t in tensors()]
print(json.dumps({
    "moved": sum(a != b for a, b in zip(before, after)),
    "lost": sum(not torch.equal(t.detach().cpu(), v) for t, v in zip(tensors(), kept)),
    "hits": [one.planned_bytes_rate for one in session.history if one.phase == "replay"],
}))
"""

CAPTURED = """
import json, pgmo, torch
from workloads import Shape, create

workload = create("gpt", Shape(batch=4, small=True))
source, target = torch.zeros(8, device="cuda"), torch.zeros(8, device="cuda")
graph, seen = torch.cuda.CUDAGraph(), []
with pgmo.optimize(device="cuda") as session:
    for iteration in range(14):
        if iteration == 9:
            with torch.cuda.graph(graph):
                scratch = torch.empty(1 << 20, device="cuda")
                target.copy_(source)
        if iteration >= 9:
            source.copy_(torch.full((8,), float(iteration)))
            graph.replay()
            seen.append(target.cpu().tolist())
        workload.step(64)
        session.step()
print(json.dumps({"seen": seen, "hits": session.history[-1].planned_bytes_rate}))
"""


PERCEPTRON = """
import json, pgmo, torch

layers = [torch.nn.Linear(512, 512, device=device) for _ in range(4)]
optimizer = torch.optim.Adam([p for one in layers for p in one.parameters()])

def train(session):
    for _ in range(12):
        x = torch.randn(4096, 512, device=device)
        for one in layers:
            x = torch.relu(one(x))
        x.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        del x
        session.step()
"""

OTHER_DEVICE = f"""
device = "cuda:1"
{PERCEPTRON}
from tests.fakecuda.control import has_context, used

with pgmo.optimize(device=device) as session:
    train(session)
    found = [session.phase, session.history[-1].planned_bytes_rate]
print(json.dumps([*found, used(0), has_context(0), torch.cuda.memory_reserved(0), has_context(1)]))
"""

OVER_THE_DRIVERS_POOL = f"""
device = "cuda"
{PERCEPTRON}
import warnings
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as said, pgmo.optimize(device="cuda") as session:
    train(session)
    planned = session.plan is not None
    found = [session.phase, planned, [str(one.message) for one in said]]
assert torch.cuda.memory.get_allocator_backend() == "cudaMallocAsync"
print(json.dumps(found))
"""


def run(code, **environment):
    return run_program(code, **environment)


@pytest.mark.parametrize("configuration", ["", "expandable_segments:True"])
def test_weights_and_optimizer_state_stay_where_they_are(configuration):
    found = run(MOVED, PYTORCH_CUDA_ALLOC_CONF=configuration, PGMO_CHECK="1")
    assert found["moved"] == 0
    assert found["lost"] == 0
    assert len(found["hits"]) > 3
    assert min(found["hits"][1:]) >= 0.999


def test_a_graph_can_be_captured_while_a_plan_is_in_use():
    found = run(CAPTURED)
    assert found["seen"] == [[float(iteration)] * 8 for iteration in range(9, 14)]
    assert found["hits"] >= 0.999


def test_a_session_on_one_device_leaves_the_others_alone():
    phase, hits, used, context, reserved, own_context = run(OTHER_DEVICE, FAKECUDA_DEVICES="2")
    assert phase == "replay"
    assert hits >= 0.999
    assert own_context
    assert (used, context, reserved) == (0, False, 0)


EVALUATED = """
import json, pgmo, torch
from tests.fakecuda.control import used
from workloads import Shape, create

workload = create("gpt", Shape(batch=4, small=True))
device = torch.device("cuda")
def train(times):
    for _ in range(times):
        workload.step(64)
        workload.optimize.zero_grad()
        session.step()

def evaluate():
    return len(torch.empty(size, dtype=torch.uint8, device=device))

with pgmo.optimize(device="cuda") as session:
    train(10)
    card = torch.cuda.get_device_properties(0).total_memory
    # All that is left on the card, and half of what the arena has.
    size = card - used() + session.plan.arena // 2
    with session.pause():
        paused = evaluate() == size
    train(3)
    hits = session.history[-1].planned_bytes_rate
    evaluated = evaluate() == size
evaluated = evaluated and evaluate() == size  # after the loop
try:
    torch.empty(card, dtype=torch.uint8, device=device)
    refused = ""
except torch.OutOfMemoryError as error:
    refused = str(error).split(".")[0]
print(json.dumps([paused, hits, evaluated, refused]))
"""


@pytest.mark.parametrize("pages", ["0", "1"])
def test_an_evaluation_gets_the_memory_of_an_arena_that_lies_idle(pages):
    found = run(EVALUATED, FAKECUDA_BYTES=str(1 << 30), PGMO_PAGES=pages)
    paused, hits, evaluated, refused = found
    assert paused
    assert hits >= 0.999
    assert evaluated
    assert refused == "CUDA out of memory"


def test_beside_the_drivers_own_pool_a_session_steps_aside_and_says_so():
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    phase, planned, said = run(OVER_THE_DRIVERS_POOL, **settings)
    assert phase == "bypass"
    assert not planned
    assert any("uses the driver's memory pool (backend:cudaMallocAsync)" in one for one in said)
