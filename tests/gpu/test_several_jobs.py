"""Tests of jobs that share the device, with the same results as alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402
from pgmo.share.broker import Broker  # noqa: E402
from pgmo.share.schedule import Rules  # noqa: E402
from tests.gpu.device import PAGES, STUB  # noqa: E402
from tests.gpu.processes import result_of, run_module  # noqa: E402
from tests.gpu.programs import GPT, Perceptron  # noqa: E402
from tests.gpu.running import (  # noqa: E402
    ITERATIONS,
    Outcome,
    assert_replayed,
    assert_same,
    run,
)
from tests.unit.share.oracle import check  # noqa: E402

pytestmark = pytest.mark.skipif(not PAGES, reason="needs pages, which PGMO_PAGES=0 forbids")


def in_turns(makers, sessions):
    """Alternate the iterations of two programs."""
    programs = []
    for make in makers:
        torch.manual_seed(0)
        programs.append(make())
    values = [[] for _ in makers]
    for index in range(ITERATIONS):
        for at, session in enumerate(sessions):
            torch.manual_seed(1000 + index)
            with session.iteration():
                values[at].append(programs[at].step(index).detach().cpu())
    torch.cuda.synchronize()
    states = [[tensor.detach().cpu() for tensor in one.state()] for one in programs]
    return [Outcome(*one) for one in zip(values, states, strict=True)]


def test_two_trainings_in_turns():
    makers = GPT, Perceptron
    alone = [run(make) for make in makers]
    with pgmo.optimize(device="cuda") as first, pgmo.optimize(device="cuda") as second:
        together = in_turns(makers, (first, second))
    for one, other in zip(alone, together, strict=True):
        assert_same(one, other)
    assert_replayed(first)
    assert_replayed(second)


def test_training_goes_on_after_its_state_has_slept():
    plain = run(GPT)
    torch.manual_seed(0)
    values = []
    with pgmo.optimize(device="cuda") as session:
        program = GPT()
        for index in range(ITERATIONS):
            torch.manual_seed(1000 + index)
            with session.iteration():
                values.append(program.step(index).detach().cpu())
            if index % 4 == 3:
                before = torch.cuda.memory_reserved()
                program.optimizer.zero_grad()
                released = session.release(state="host", of=[program.model, program.optimizer])
                assert released.host > 0
                assert torch.cuda.memory_reserved() < before
                with pytest.raises(pgmo.errors.SessionError, match="sleeps"):
                    program.optimizer.step()
                session.resume()
    assert session.phase == "closed"
    assert session.history[-1].bytes_requested > 0
    torch.cuda.synchronize()
    state = [tensor.detach().cpu() for tensor in program.state()]
    assert_same(plain, Outcome(values, state))


def test_a_graph_replays_after_its_memory_has_slept():
    with pgmo.optimize(device="cuda") as session:
        source, target = torch.zeros(4 << 20, device="cuda"), torch.zeros(4 << 20, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            target.copy_(source)
        released = session.release(state="host", of=[source, target])
        assert released.host >= 32 << 20
        session.resume()
        source.copy_(torch.full((4 << 20,), 5.0))
        graph.replay()
        torch.cuda.synchronize()
        assert target[-1].item() == 5.0 or STUB


def in_processes(folder, address, together):
    """Run GPT and Perceptron in a process each, and return their printed results."""
    folder.mkdir()
    shared = {"PGMO_SHARE": str(address), "FAKECUDA_SHARED": str(folder / "card")}
    names = ("GPT", "Perceptron")
    with ThreadPoolExecutor(2) as pool:
        jobs = []
        for name in names:
            if not together:  # as if the other program had started
                (folder / next(one for one in names if one != name)).touch()
            job = pool.submit(
                run_module, "shared_program", name, str(folder), environment=shared, timeout=150
            )
            if not together:
                job.result()
            jobs.append(job)
        return [result_of(job.result()) for job in jobs]


def test_two_trainings_in_processes_of_their_own(tmp_path):
    alone = in_processes(tmp_path / "alone", tmp_path / "none", together=False)
    address = tmp_path / "socket" / "share"
    with Broker(
        address, Rules(total=1, deadline=100.0, patience=100.0), tmp_path / "log"
    ) as broker:
        thread = threading.Thread(target=broker.run)
        thread.start()
        together = in_processes(tmp_path / "together", address, together=True)
        broker.stop()
        thread.join()
    verdict = check(tmp_path / "log", slack=100.0)
    assert verdict.wrong == []
    assert verdict.turns == 2 * ITERATIONS
    for one, other in zip(alone, together, strict=True):
        assert other["digest"] == one["digest"] or STUB
        assert other["replayed"] > 0
        assert other["between"] <= one["between"]  # the program that ends last keeps its arena
