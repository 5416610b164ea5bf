"""Optimizer state and gradients move at an iteration boundary; the training does not notice."""

import copy
import gc

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.allocator.adapters.relocation import FOREIGN, REGION, SLOT  # noqa: E402
from pgmo.allocator.adapters.torch_cpu import torch_cpu  # noqa: E402
from tests.unit.allocator.training import (  # noqa: E402
    Training,
    assert_same,
    run,
    size_of,
    trained,
)


def kinds():
    """Where each living block of the engine's is, by its address."""
    return {int(one["address"]): int(one["kind"]) for one in torch_cpu().engine.living()}


@pytest.fixture
def regions():
    """Bytes of regions since the test began: those that are in use, and all."""
    gc.collect()
    names = ("live_region_bytes", "region_bytes")
    before = torch_cpu().engine.statistics()

    def bytes_now():
        now = torch_cpu().engine.statistics()
        return tuple(now[name] - before[name] for name in names)

    return bytes_now


def momentum(parameters, lr):
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def fused(parameters, lr):
    return torch.optim.AdamW(parameters, lr=lr, fused=True)


def one_by_one(parameters, lr):
    return torch.optim.Adam(parameters, lr=lr, foreach=False, amsgrad=True)


OPTIMIZERS = [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, momentum, fused, one_by_one]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_state_moves_into_regions_and_training_is_bit_identical(optimizer, regions):
    training = Training(optimizer)
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 10)
        where = kinds()
        assert {where.get(one.data_ptr()) for one in training.state()} == {REGION}
        assert regions()[0] == size_of(training.state())
        assert all(one.hit_rate == 1 for one in session.history[5:])
        assert "of long-lived blocks were moved together" in str(session.summary())
        assert "stayed where they were" not in str(session.summary())
    assert_same(training, trained(10, optimizer=optimizer))


@pytest.mark.parametrize("zero_grad", ["top", "batch", "end", "never"])
def test_whenever_gradients_are_dropped(zero_grad, regions):
    training = Training(zero_grad=zero_grad)
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 10)
        # Gradients that are never dropped live as long as the state does; others do not get into
        # its regions, where they would leave holes.
        forever = training.state() + (training.gradients() if zero_grad == "never" else [])
        assert regions()[0] == size_of(forever)
        assert regions()[1] <= 1.01 * size_of(forever)
        assert session.history[-1].hit_rate == 1
    assert_same(training, trained(10, zero_grad=zero_grad))


def test_gradients_that_the_next_iteration_drops_move_into_their_slots():
    training = Training()
    seen = []
    with pgmo.optimize(device="cpu", compact=True) as session:
        while session.phase.value != "replay":
            run(training, session, 1)
            seen.append({kinds().get(one.data_ptr()) for one in training.gradients()})
        assert seen[-1] == {SLOT}
        assert seen[-2] != {SLOT}
        run(training, session, 1)
        assert session.history[-1].hit_rate == 1  # none of them is in another's way
    assert_same(training, trained(len(training.losses)))


@pytest.mark.parametrize("compact", [False, None])
def test_nothing_moves_unless_it_was_asked_for(compact, regions):
    training = Training()
    addresses = []
    with pgmo.optimize(device="cpu", compact=compact) as session:
        for _ in range(8):
            run(training, session, 1)
            addresses.append([one.data_ptr() for one in training.state()])
        assert regions() == (0, 0)
    assert all(one == addresses[0] for one in addresses)
    assert "moved" not in str(session.summary())


def test_parameters_and_what_the_program_made_before_stay_where_they_are():
    training = Training()
    mine = torch.arange(1 << 20)
    before = [mine.data_ptr(), *(one.data_ptr() for one in training.model.parameters())]
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 6)
    assert before == [mine.data_ptr(), *(one.data_ptr() for one in training.model.parameters())]


def test_state_outlives_the_session_and_its_region_lives_as_long(regions):
    training = Training()
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 8)
    held = regions()
    assert held[0] == size_of(training.state())
    for _ in range(4):
        training.step()
    assert regions() == held
    assert_same(training, trained(12))
    training.optimizer.state.clear()
    assert regions() == (0, 0)


def test_views_and_detached_tensors_move_along():
    class Views(Training):
        """Keeps the state as views of one tensor for each parameter, as sharded optimizers do."""

    training = Views()
    plain = Views()
    for one in (training, plain):
        one.step()
        for state in one.optimizer.state.values():
            both = torch.cat([state["exp_avg"].flatten(), state["exp_avg_sq"].flatten()])
            shape, half = state["exp_avg"].shape, both.numel() // 2
            state["exp_avg"] = both[:half].view(shape)
            state["exp_avg_sq"] = both[half:].view(shape)
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 8)
        for state in training.optimizer.state.values():
            first, second = state["exp_avg"], state["exp_avg_sq"]
            assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    for _ in range(8):
        plain.step()
    assert_same(training, plain)


def test_state_that_was_loaded_meanwhile_moves_out_of_the_slots_that_it_took():
    training, plain = Training(), Training()
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 8)
        training.optimizer.load_state_dict(copy.deepcopy(training.optimizer.state_dict()))
        run(training, session, 1)
        with session.iteration():
            # Loaded inside of an iteration, so at the sizes of planned requests.
            training.optimizer.load_state_dict(copy.deepcopy(training.optimizer.state_dict()))
            training.step()
        run(training, session, 20)
        assert session.history[-1].hit_rate == 1
        where = kinds()
        assert SLOT not in {where.get(one.data_ptr()) for one in training.state()}
    for _ in training.losses:
        plain.step()
    assert_same(training, plain)


class Recurrent(nn.Module):
    """An LSTM, the weights of which lie in one flat tensor on a GPU."""

    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(32, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, 10)
        self.cells.flatten_parameters()

    def forward(self, inputs):
        return self.head(self.cells(inputs.view(len(inputs), 8, 32))[0][:, -1])


def test_recurrent_networks_train_identically(regions):
    training = Training(model=Recurrent)
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 9)
        assert regions()[0] == size_of(training.state())
    assert_same(training, trained(9, model=Recurrent))


def test_a_larger_batch_moves_gradients_to_the_slots_of_the_new_plan(regions):
    training, plain = Training(), Training()
    batches = [16] * 7 + [32] * 2 + [24, 32, 16] + [48] * 2
    with pgmo.optimize(device="cpu", compact=True) as session:
        for batch in batches:
            run(training, session, 1, batch=batch)
        assert session.history[-1].hit_rate == 1
        assert regions()[0] == size_of(training.state())
    for batch in batches:
        plain.step(batch=batch)
    assert_same(training, plain)


def exchange(training, layer):
    """Another layer, which is not trained, gets the place of the first one, which is returned.

    Its gradients are left where they are.
    """
    first = training.model[0]
    training.model[0] = layer.requires_grad_(False)
    (group,) = training.optimizer.param_groups
    gone = [id(one) for one in first.parameters()]
    group["params"] = [one for one in group["params"] if id(one) not in gone]
    return first


def test_gradients_that_no_plan_has_any_more_do_not_hold_the_old_arena():
    training, plain = Training(), Training()
    layer = nn.Linear(256, 512)
    engine = torch_cpu().engine
    arenas = engine.statistics()["arenas"]
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 8)
        old = exchange(training, layer)
        assert {kinds()[one.grad.data_ptr()] for one in old.parameters()} == {SLOT}
        run(training, session, 3, batch=1024)  # for which the arena is too small
        where = {kinds().get(one.grad.data_ptr(), FOREIGN) for one in old.parameters()}
        assert where == {FOREIGN}
        assert engine.statistics()["arenas"] == arenas + 1
        assert session.history[-1].hit_rate == 1
    for _ in range(8):
        plain.step()
    same = exchange(plain, layer)
    for _ in range(3):
        plain.step(batch=1024)
    assert_same(training, plain)
    for one, other in zip(old.parameters(), same.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
