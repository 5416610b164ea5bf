"""Models that are captured in parts: the bits, the prediction, what is said, what is refused."""

import copy
import random
import threading
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.capture.taking.meter import meter  # noqa: E402
from tests.unit.recompute.compiled import models  # noqa: E402
from tests.unit.recompute.compiled.models import batch, step  # noqa: E402
from tests.unit.recompute.steps import same  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:the forward pass is no single graph")


def made(kind, budget="min", **options):
    """The plain model, the one that recomputes, and its plan."""
    torch.manual_seed(0)
    plain = kind()
    random.seed(0)
    return plain, *pgmo.recompute(copy.deepcopy(plain), batch(0), budget, **options)


def peak(model, inputs):
    model.zero_grad(set_to_none=True)
    random.seed(0)
    with meter(torch.device("cpu")) as measured:
        result = model(*inputs)
        (result if isinstance(result, torch.Tensor) else result["loss"]).backward()
    return measured.whole.peak


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (models.Blocks, ("blocks.0", "blocks.1", "blocks.2")),
        (models.Shared, ("blocks.0", "blocks.1")),
        (models.Written, ("blocks.0", "blocks.1", "blocks.2")),
        (models.Hidden, ("blocks.1", "blocks.2")),
        (models.Convolutions, ("layers.0", "layers.1")),
        (models.Decoder, ("encoder", "layers.0.block", "layers.1.block", "layers.2.block")),
    ],
)
def test_parts_share_a_plan_whose_peak_is_that_of_a_step_and_keep_all_bits(kind, parts):
    plain, model, plan = made(kind)
    assert plan.parts == parts
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(3):
            assert same(step(model, batch(number), number), step(plain, batch(number), number))
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.01)
    assert "The first real step took" in plan.explain()
    plain_peak = peak(copy.deepcopy(plain), batch(0))
    assert plan.default_peak == pytest.approx(plain_peak, rel=0.01)
    assert plan.peak < 0.9 * plan.default_peak
    assert peak(model, batch(0)) == pytest.approx(plan.peak, rel=0.01)


def test_the_budget_is_one_for_all_parts():
    _, model, plan = made(models.Blocks, budget=0.75)
    assert plan.overhead > 0
    assert plan.peak <= plan.budget == int(0.75 * plan.default_peak)
    assert peak(model, batch(0)) <= plan.budget
    assert "no single graph. Captured: blocks.0, blocks.1, blocks.2." in plan.explain()
    least = made(models.Blocks)[2]
    with pytest.raises(pgmo.BudgetError, match=f"Give a budget of {least.peak} bytes"):
        made(models.Blocks, budget=least.peak - 1)
    first, *_, last = plan.curve(points=3).choices
    assert first.peak <= plan.peak
    assert last.overhead == 0
    assert first.overhead > 0


def test_the_message_names_the_line_that_cannot_be_captured():
    with pytest.warns(
        UserWarning, match=r"models\.py:\d+: return x \+ torch\.from_numpy.* 3 parts"
    ):
        made(models.Blocks)
    with pytest.raises(
        pgmo.errors.GraphError, match=r"models\.py:\d+: return x \+ torch\.from_numpy"
    ):
        made(models.Blocks, whole=True)


def test_what_has_nothing_to_forget_is_refused_as_before():
    class Plain(nn.Linear):
        def forward(self, x, labels):
            return models.opaque(super().forward(x)).sum() * labels.sum()

    with pytest.raises(pgmo.errors.GraphError, match="the step cannot be captured"):
        made(lambda: Plain(models.WIDTH, models.WIDTH))


def test_nothing_stays_of_the_steps_that_are_run_to_plan():
    torch.manual_seed(0)
    model = models.Blocks()
    before = copy.deepcopy(model.state_dict())
    model.head.weight.register_hook(lambda gradient: pytest.fail("a hook ran"))
    inputs = batch(0)
    given, drawn = inputs[0].clone(), (random.getstate(), torch.get_rng_state())
    pgmo.recompute(model, inputs)
    assert model.calls == 0
    assert all(one.grad is None for one in model.parameters())
    assert all(map(torch.equal, model.state_dict().values(), before.values()))
    assert torch.equal(inputs[0], given)
    assert random.getstate() == drawn[0]
    assert torch.equal(torch.get_rng_state(), drawn[1])
    assert not any("forward" in vars(one) for one in model.modules())


def test_a_counter_counts_calls_and_not_the_capture_that_it_makes_impossible():
    class Counts(models.Blocks):
        def between(self, x):
            return x

    _, model, plan = made(Counts, planner="min-cut", measure=False)
    assert len(plan.parts) == 3
    assert model.calls == 0
    for number in range(3):
        step(model, batch(number), number)
    assert model.calls == 3


def test_hooks_of_a_part_run_around_it():
    plain = models.Blocks()
    model, plan = pgmo.recompute(copy.deepcopy(plain), batch(0), whole=False)
    for one in (plain, model):
        one.blocks[1].register_forward_hook(lambda module, given, result: 2 * result)
    assert same(step(model, batch(0), 0), step(plain, batch(0), 0))
    assert plan.parts == ("blocks.0", "blocks.1", "blocks.2")


def test_ways_that_come_later_are_planned_when_they_come():
    plain, model, plan = made(models.LayerDrop)
    before = plan.peak
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(8):
            assert same(step(model, batch(number), number), step(plain, batch(number), number))
    (divided,) = {id(one): one for (one,) in model.forward.calls.values()}.values()
    assert set(divided.planned.parts) <= {"blocks.0", "blocks.1", "blocks.2"}
    assert plan.peak >= before  # of a way through more blocks


def test_parts_of_other_shapes_each_time_run_as_they_are_in_the_end():
    plain, model, _ = made(models.Experts, measure=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(12):
            inputs = batch(number, 24)
            assert same(step(model, inputs, number), step(plain, inputs, number))


def test_other_batches_modes_and_switched_gradients():
    plain, model, _ = made(models.Blocks)
    assert same(step(model, batch(1, 24), 0), step(plain, batch(1, 24), 0))
    with torch.no_grad():
        torch.manual_seed(0)
        ours = model(*batch(2))
        torch.manual_seed(0)
        assert torch.equal(ours, plain(*batch(2)))
    for one in (plain, model):
        one.eval()
        one.blocks[1].requires_grad_(False)
    assert same(step(model, batch(3), 0), step(plain, batch(3), 0))


def test_under_a_checkpoint_inside_of_the_model_submodules_are_as_they_are():
    class Checkpoints(models.Blocks):
        def forward(self, x, labels):
            from torch.utils.checkpoint import checkpoint

            x = self.between(self.blocks[0](x))
            x = self.between(checkpoint(self.blocks[1], x, use_reentrant=False))
            return nn.functional.cross_entropy(self.head(self.blocks[2](x)), labels)

    plain, model, plan = made(Checkpoints)
    assert plan.parts == ("blocks.0", "blocks.2")
    assert same(step(model, batch(0), 0), step(plain, batch(0), 0))


def test_other_threads_find_the_modules_as_they_are():
    found = []

    class Meets(models.Blocks):
        meets = False

        def between(self, x):
            if self.meets:
                own = self.blocks[0]
                thread = threading.Thread(target=lambda: found.append(own(x.detach())))
                thread.start()
                thread.join()
            return models.opaque(x)

    plain, model, _ = made(Meets)
    plain.meets = model.meets = True
    assert same(step(model, batch(0), 0), step(plain, batch(0), 0))
    assert "CompiledFunction" not in {type(one.grad_fn).__name__ for one in found}
    assert len(found) == 6


def test_an_error_between_parts_leaves_the_model_as_it_was():
    class Fails(models.Blocks):
        failing = False

        def between(self, x):
            if self.failing:
                raise ValueError("between")
            return models.opaque(x)

    plain, model, _ = made(Fails)
    model.failing = True
    with pytest.raises(ValueError, match="between"):
        model(*batch(0))
    model.failing = False
    assert not any("forward" in vars(one) for one in model.modules())
    assert same(step(model, batch(0), 0), step(plain, batch(0), 0))


def test_one_that_writes_into_its_parameters_is_not_run_to_be_looked_at():
    class Writes(models.Blocks):
        def between(self, x):
            with torch.no_grad():
                self.head.weight.mul_(0.5)
            return models.opaque(x)

    torch.manual_seed(0)
    model = Writes()
    before = model.head.weight.detach().clone()
    with pytest.raises(pgmo.errors.GraphError, match="the step cannot be captured"):
        pgmo.recompute(model, batch(0))
    assert torch.equal(model.head.weight, before)


def test_modules_of_torchscript_leave_a_model_as_it_was():
    class Scripted(models.Blocks):
        def __init__(self):
            super().__init__()
            self.head = torch.jit.script(nn.Linear(models.WIDTH, 4))

    model = Scripted()
    before = list(model.parameters())
    with pytest.raises(pgmo.errors.GraphError, match="the step cannot be captured"):
        pgmo.recompute(model, batch(0))
    assert all(one is other for one, other in zip(model.parameters(), before, strict=True))


def test_a_way_that_comes_later_and_does_not_fit_runs_as_it_is():
    class Chooses(models.Blocks):
        longer = False

        def forward(self, x, labels):
            for block in self.blocks if self.longer else self.blocks[:1]:
                x = self.between(block(x))
            return nn.functional.cross_entropy(self.head(x), labels)

    least = made(Chooses)[2].peak
    plain, model, _ = made(Chooses, budget=least)
    plain.longer = model.longer = True
    assert same(step(model, batch(0), 0), step(plain, batch(0), 0))
    with pytest.warns(UserWarning, match="the first plan stays: no recomputation was found"):
        assert same(step(model, batch(1), 1), step(plain, batch(1), 1))
    assert same(step(model, batch(2), 2), step(plain, batch(2), 2))
