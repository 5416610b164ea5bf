"""Whoever may hold an address keeps its block where it is, and the summary says so."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402
from pgmo.allocator.session.statistics import Phase  # noqa: E402
from tests.unit.allocator.training import Training, assert_same, run, trained  # noqa: E402


def largest_state(training):
    return max(training.state(), key=lambda one: one.numel())


def addresses(training):
    return [one.data_ptr() for one in training.state()]


def train_with(hold, **options):
    """Trains, with `hold` called on the largest state tensor before anything moves.

    Returns:
        The training, what `hold` returned, the addresses of its state before and after, and the
        summary.
    """
    training = Training(**options)
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 2)
        held = hold(largest_state(training))
        before = addresses(training)
        run(training, session, 8)
        assert session.history[-1].hit_rate == 1
        return training, held, before, addresses(training), str(session.summary())


def stays(reason):
    """What the summary says of one tensor of 512 times 512 floats."""
    return f"1.00 MiB stayed where they were: {reason}"


def check(training, before, after, summary, *reasons):
    at = before.index(next(a for a, b in zip(before, after, strict=True) if a == b))
    moved = [a != b for a, b in zip(before, after, strict=True)]
    assert moved == [number != at for number in range(len(before))]
    assert training.state()[at].numel() == 512 * 512
    assert any(stays(reason) in summary for reason in reasons)
    assert_same(training, trained(10))


NO_TENSOR = "held by something that is not a tensor of Python's"
SEVERAL = "referred to from several places"
ALIAS = "shared with a tensor that somebody else holds"


def test_a_view_in_numpy():
    """It keeps a tensor of its own, to which nobody else refers."""
    training, held, before, after, summary = train_with(lambda one: one.numpy())
    kept = next(one for one in training.state() if one.data_ptr() == held.ctypes.data)
    assert np.array_equal(held, kept.numpy())  # still the same memory, after eight more steps
    check(training, before, after, summary, ALIAS)


@pytest.mark.parametrize(
    "consume", [np.from_dlpack, torch.utils.dlpack.to_dlpack], ids=["numpy", "capsule"]
)
def test_a_consumer_of_dlpack(consume):
    training, held, before, after, summary = train_with(consume)
    check(training, before, after, summary, SEVERAL, NO_TENSOR)
    array = held if isinstance(held, np.ndarray) else torch.utils.dlpack.from_dlpack(held).numpy()
    assert array.ctypes.data in after
    kept = next(one for one in training.state() if one.data_ptr() == array.ctypes.data)
    assert np.array_equal(array, kept.numpy())


def test_a_view_in_numpy_of_a_view():
    training, held, before, after, summary = train_with(lambda one: one.view(-1)[7:].numpy())
    check(training, before, after, summary, ALIAS)
    assert held.ctypes.data - 7 * 4 in after


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (torch.Tensor.detach, ALIAS),
        (lambda one: one.view(-1), SEVERAL),  # a view knows the tensor that it was made from
        (lambda one: one.T, SEVERAL),
    ],
    ids=["detach", "view", "transposed"],
)
def test_another_tensor_of_the_same_storage(make, reason):
    training, held, before, after, summary = train_with(make)
    check(training, before, after, summary, reason)
    assert held.data_ptr() in after


def test_another_storage_object():
    training, held, before, after, summary = train_with(lambda one: one.untyped_storage())
    check(training, before, after, summary, NO_TENSOR)
    assert held.data_ptr() in after


def test_a_second_reference_in_python():
    training, held, before, after, summary = train_with(lambda one: [one])
    check(training, before, after, summary, SEVERAL)
    assert held[0].data_ptr() in after


def test_a_memoryview():
    training, held, before, after, summary = train_with(lambda one: memoryview(one.numpy()))
    check(training, before, after, summary, ALIAS)
    assert held.nbytes == 1 << 20


class Foreign(torch.optim.Adam):
    """An optimizer of another library's."""


def test_an_optimizer_of_another_library():
    training = Training(Foreign)
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 2)
        before = addresses(training)
        run(training, session, 6)
        assert addresses(training) == before
        assert "stayed where they were: state of an optimizer that may keep addresses" in str(
            session.summary()
        )
    assert_same(training, trained(8, optimizer=Foreign))


def test_an_optimizer_made_for_captured_graphs():
    """On the CPU it refuses to step like that, so it is only so between the steps."""
    training = Training()
    (group,) = training.optimizer.param_groups
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 2)
        before = addresses(training)
        for _ in range(6):
            with session.iteration():
                group["capturable"] = False
                training.step()
                group["capturable"] = True
        assert addresses(training) == before
        assert "state of an optimizer that may keep addresses" in str(session.summary())
    assert training.losses == trained(8).losses


@pytest.mark.parametrize("much", [True, False])
def test_tensors_that_are_neither_state_nor_gradients(much, monkeypatch):
    """A buffer that the program makes while the session records, and keeps.

    That it stays is as it should be, so it is told only when it is large.
    """
    if much:
        monkeypatch.setattr("pgmo.allocator.adapters.relocation._MUCH", 1 << 20)
    training, plain = Training(), trained(8)
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 1)
        mine = torch.arange(1 << 18, dtype=torch.float32)
        before = mine.data_ptr()
        run(training, session, 7)
        assert mine.data_ptr() == before
        assert ("stayed where they were" in str(session.summary())) is much
        assert (stays("parameters and other tensors") in str(session.summary())) is much
    assert torch.equal(mine, torch.arange(1 << 18, dtype=torch.float32))
    assert_same(training, plain)


@pytest.mark.parametrize(
    "hold",
    [
        torch.Tensor.numpy,
        np.from_dlpack,
        lambda one: [one],
        torch.Tensor.detach,
        torch.Tensor.untyped_storage,
    ],
    ids=["numpy", "dlpack", "list", "detach", "storage"],
)
def test_gradients_that_somebody_holds(hold):
    """Without that, they move into their slots: see test_moving.py."""
    training = Training()
    with pgmo.optimize(device="cpu", compact=True) as session:
        while session.phase is Phase.RECORD:
            with session.iteration():
                training.step()
                gradient = training.model[2].weight.grad
                before = gradient.data_ptr()
                held = hold(gradient)
                del gradient
        assert training.model[2].weight.grad.data_ptr() == before
        del held
        run(training, session, 4)
    assert_same(training, trained(len(training.losses)))


def test_an_array_that_is_all_that_is_left_of_a_tensor():
    """The only reference to the tensor is the array's, which lives into the next iteration."""
    training = Training()
    outputs = None
    with pgmo.optimize(device="cpu", compact=True) as session:
        for _ in range(10):
            with session.iteration():
                training.step()
                previous, outputs = outputs, torch.full((1 << 16,), len(training.losses)).numpy()
                assert previous is None or np.all(previous == len(training.losses) - 1)
                del previous
            assert np.all(outputs == len(training.losses))
    assert_same(training, trained(10))
