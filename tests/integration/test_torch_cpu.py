"""Tests of PyTorch in a session, on the CPU."""

import gc
import warnings

import pytest

import pgmo
from tests import forked
from tests.same_bits import assert_same_bits, bits

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.1)),
        *(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16 * 16, 10)),
    )


class Training:
    """A small network that trains on synthetic data, both determined by a seed."""

    def __init__(self, seed=0):
        self.model = make_model(seed)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.generator = torch.Generator().manual_seed(seed)
        self.losses = []

    def step(self, batch=16):
        torch.manual_seed(len(self.losses))  # dropout draws from the global generator
        inputs = torch.randn(batch, 3, 16, 16, generator=self.generator)
        labels = torch.randint(0, 10, (batch,), generator=self.generator)
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(inputs), labels)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())

    def state(self):
        return [value.clone() for value in self.model.state_dict().values()]


def results(training):
    return training.losses, bits(training.state())


def trained(steps):
    training = Training()
    for _ in range(steps):
        training.step()
    return training


STEPS = 12


@pytest.fixture
def plain():
    """Return a training after `STEPS` steps without pgmo."""
    return trained(STEPS)


def assert_same(plain, training):
    assert_same_bits(results(plain), results(training), lambda: results(trained(STEPS)))


def test_training_is_bit_identical_and_served_from_slots(plain):
    training = Training()
    with pgmo.optimize() as session:
        for _ in range(12):
            with session.iteration():
                training.step()
    assert_same(plain, training)
    assert all(one.hit_rate >= 0.99 for one in session.history[5:])
    assert session.plan.gap <= 0.01
    assert session.profile.meta.framework == "torch"
    assert not session.profile.persistent.any()


def test_switching_on_and_off_with_tensors_alive(plain):
    training = Training()
    training.step()
    before = torch.arange(1000.0)
    with pgmo.optimize() as session:
        for _ in range(7):
            with session.iteration():
                training.step()
                inside = torch.arange(1000.0) * 2
    for _ in range(4):
        training.step()
    assert_same(plain, training)
    assert torch.equal(before * 2, inside)
    del inside
    gc.collect()


def test_out_of_memory_is_typed_and_says_what_pgmo_holds():
    with pgmo.optimize() as session:
        for _ in range(6):
            torch.ones(1 << 16).sum()
            session.step()
        with pytest.raises(torch.OutOfMemoryError) as caught:
            torch.empty(1 << 55, dtype=torch.uint8)
        torch.ones(1 << 16).sum()  # the program continues
    message = str(caught.value)
    assert message.startswith("CPU out of memory. Tried to allocate 32768.00 TiB")
    assert "pgmo's arenas hold" in message
    assert isinstance(caught.value, RuntimeError)


def test_slots_are_reported_to_the_profiler():
    def step():
        return torch.ones(100_000).sum()

    with pgmo.optimize() as session:
        for _ in range(6):
            step()
            session.step()
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile:
            step()
        assert session.statistics["hits"] > 0
    allocations = [event.self_cpu_memory_usage for event in profile.key_averages()]
    assert sum(size for size in allocations if size > 0) >= 400_000


def test_storage_keeps_its_allocator_after_the_session():
    with pgmo.optimize() as session:
        for _ in range(6):
            tensor = torch.arange(10.0)
            session.step()
    tensor.resize_(100_000)  # calls the allocator of the tensor, which is no longer installed
    assert torch.equal(tensor[:10], torch.arange(10.0))


def test_smaller_last_batch_and_evaluation(plain):
    def loop(session=None):
        training = Training()
        for number in range(14):
            training.step(batch=16 if number % 5 else 7)
            if session is not None:
                with session.pause(), torch.no_grad():
                    training.model(torch.zeros(4, 3, 16, 16))
                session.step()
            else:
                with torch.no_grad():
                    training.model(torch.zeros(4, 3, 16, 16))
        return results(training)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pgmo.optimize() as session:
            with_pgmo = loop(session)
    assert_same_bits(loop(), with_pgmo, loop)


def test_dataloader_workers_fork_into_bypass():
    """A worker forks in the middle of an iteration, with the engine's state."""
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    loader = torch.utils.data.DataLoader(data, batch_size=16, num_workers=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pgmo.optimize() as session:
            for _ in range(6):
                total = sum(batch.sum() for (batch,) in loader)
                assert total == 64 * 63 / 2
                session.step()


def test_forked_children_train_with_sessions_of_their_own():
    """The program has one thread, because a child would wait for OpenMP's other threads."""
    ended = forked.run(
        """
import os
import warnings

import pgmo
import torch
from tests.integration.test_torch_cpu import Training, assert_same

warnings.simplefilter("ignore")
torch.set_num_threads(1)

def loop(training, session=None):
    for _ in range(8):
        training.step()
        if session is not None:
            session.step()

def train_in_child():
    without, with_pgmo = Training(), Training()
    with pgmo.optimize(device="cpu") as own:
        loop(with_pgmo, own)
        assert own.history[-1].hits > 0
    loop(without)
    assert_same(with_pgmo, without)

parent = Training()
with pgmo.optimize(device="cpu") as session:
    loop(parent, session)
    child = os.fork()
    if child == 0:
        train_in_child()
        print("child trained", flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    loop(parent, session)
"""
    )
    assert ended.exit_code == 0, ended.errors
    assert "child trained" in ended.output


def test_decorator_without_parentheses_and_options_by_position():
    @pgmo.optimize
    def step():
        return torch.ones(1000).sum().item()

    assert [step() for _ in range(6)] == [1000.0] * 6
    assert step.session.history[-1].hit_rate == 1
    step.close()
    with pytest.raises(
        pgmo.errors.OptionError, match=r"write pgmo\.optimize\(plan='x\.pgmoplan'\)"
    ):
        pgmo.optimize("x.pgmoplan")
    with pytest.raises(pgmo.errors.OptionError, match="there is no option 'plann'"):
        pgmo.optimize(plann="x.pgmoplan")
