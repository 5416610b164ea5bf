"""Trainings in their own processes that share a card: an iteration is a turn."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pgmo.share.broker import Broker
from pgmo.share.handshake import status
from pgmo.share.schedule import Rules
from tests import forked
from tests.fakecuda.programs import run_command, run_program
from tests.unit.share.oracle import check

MIB = 1 << 20
TRAINING = """
import contextlib, json, pathlib, sys, time, pgmo, torch
from tests.fakecuda.control import card_peak, card_used, used, violations
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
from workloads import Shape, create
folder, at, how = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

def meet(name):
    (folder / f"{name}{at}").touch()
    while len(list(folder.glob(f"{name}*"))) < 2:
        time.sleep(0.01)

training = create("gpt", Shape(batch=(8, 12)[at], small=True))
meet("built")
with pgmo.optimize(device="cuda") as session:
    for iteration in range(10):
        with session.iteration() if how == "marked" else contextlib.nullcontext():
            training.step(128)
            training.optimize.zero_grad()
        if how == "stepped":
            session.step()
        if iteration == 8 and how == "marked":  # behind a step the next turn has begun
            meet("steady")
            card_peak(reset=True)
    persistent = torch.cuda.memory_allocated()
    peak = card_peak()
    rates = [one.planned_bytes_rate for one in session.history[-2:]]
    if how == "marked":
        meet("trained")
        between = used()
    else:
        between = 0
print(json.dumps({
    "peak": peak, "persistent": persistent, "arena": session.plan.arena, "between": between,
    "rate": min(rates), "iterations": len(session.history), "violations": violations(kernels=False),
    "notes": list(session.summary().notes),
}))
"""


@pytest.fixture
def serve(tmp_path):
    """Run a broker in a thread until the test ends."""
    ends = []

    def begin(**rules):
        broker = Broker(tmp_path / "socket" / "share", Rules(**rules), tmp_path / "log")
        thread = threading.Thread(target=broker.run)
        thread.start()
        ends.append((broker, thread))
        return tmp_path / "socket" / "share"

    yield begin
    for broker, thread in ends:
        broker.stop()
        thread.join()
        broker.close()
        assert check(tmp_path / "log", slack=60.0).wrong == []


def settings(folder, **environment):
    """Return the environment variables of a process on the shared card."""
    shared = {"FAKECUDA_SHARED": str(folder / "card"), "PGMO_CHECK": "1"}
    return shared | environment


def pair(how, folder, **environment):
    """Run two trainings at the same time, and return their output."""
    (folder / "train.py").write_text(TRAINING)

    def train(at):
        words = ("train.py", str(folder), str(at), how)
        return run_command(folder, *words, **settings(folder, **environment))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(train, (0, 1)))


@pytest.mark.parametrize("how", ["marked", pytest.param("stepped", marks=pytest.mark.slow)])
def test_two_processes_need_what_persists_and_the_larger_arena(serve, tmp_path, how):
    address = serve(total=1, deadline=100.0, patience=100.0)
    found = pair(how, tmp_path, PGMO_SHARE=str(address))
    arenas = [one["arena"] for one in found]
    persistent = sum(one["persistent"] for one in found)
    pages = 12 * MIB  # tolerance: some pages are a large share of a tiny network
    for one in found:
        assert one["iterations"] == 10
        assert one["rate"] >= 0.999
        assert one["violations"] == 0
        assert one["notes"] == []
        if how == "marked":
            assert one["between"] <= one["persistent"] + pages
    peak = max(one["peak"] for one in found)
    assert peak <= 1.02 * (persistent + max(arenas)) + pages
    assert peak < persistent + sum(arenas)


def test_both_processes_keep_their_arenas_if_there_is_room(serve, tmp_path):
    address = serve(deadline=100.0, patience=100.0)
    found = pair("marked", tmp_path, PGMO_SHARE=str(address))
    assert all(one["between"] >= one["persistent"] + one["arena"] // 2 for one in found)


def test_without_a_broker_nothing_is_different(tmp_path):
    found = pair("marked", tmp_path, PGMO_SHARE=str(tmp_path / "none"))
    assert all(one["notes"] == [] for one in found)
    assert all(one["between"] >= one["persistent"] + one["arena"] // 2 for one in found)


GRAPH = """
import json, sys, torch, pgmo
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
x = torch.zeros(1 << 20, device="cuda")
said = []
with pgmo.optimize(device="cuda") as session:
    for number in range(6):
        try:
            with session.iteration():
                y = x * 2
                if number == 3:
                    raise ValueError("amid a turn")
                del y
        except ValueError as error:
            said.append(str(error))
    with session.pause():
        x + 1
    with session.iteration():
        session.plan
    state = session.release(state="host", of=x)
    with session.iteration():
        torch.zeros(1 << 20, device="cuda")
    session.resume()
print(json.dumps([said, len(session.history)]))
"""


def test_errors_pauses_and_sleep_leave_the_turns_as_they_should_be(serve, tmp_path):
    address = serve(total=1, deadline=100.0, patience=100.0)
    seen = run_program(GRAPH, **settings(tmp_path, PGMO_SHARE=str(address)))
    assert seen[0] == ["amid a turn"]
    assert status(address)["cards"] == []
    assert check(tmp_path / "log").turns >= 8


def test_ranks_of_one_job_take_no_turns(serve, tmp_path):
    address = serve(total=1)
    ranks = {"RANK": "0", "WORLD_SIZE": "2"}
    ended = forked.run(GRAPH, **settings(tmp_path, PGMO_SHARE=str(address), **ranks))
    assert "ranks of one job take no turns" in ended.errors
    assert check(tmp_path / "log").turns == 0
