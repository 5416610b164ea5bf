"""Plans are installed only if they pay."""

import pytest

from tests.fakecuda.programs import run_program

MIB = 1 << 20

BEGIN = """
import json, random, warnings, pgmo, torch
from tests.fakecuda.control import driver_calls, peak, violations
warnings.simplefilter("error")
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
def block(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
def iterate(length, layers=12):
    "Activations that die in the reverse of their order, and gradients."
    kept = []
    for layer in range(layers):
        kept.append(block(length * (layer % 3 + 1) * 1000))
        extra = block(length * 3100)
        kept.append(block(length * 700))
        del extra
    for layer in reversed(range(layers)):
        extra = block(length * 2300)
        gradient = block(length * (layer % 3 + 1) * 1000)
        del kept[-2:], extra
chance = random.Random(1)
def phases(session):
    return [str(one.phase) for one in session.history]
"""


def run(code: str, **environment: str) -> list:
    return run_program(BEGIN + code, **environment)


def test_lengths_for_which_pages_move_little_need_no_plan():
    """The session also needs no more memory than pages alone."""
    code = """
{before}
    for _ in range(40):
        iterate(chance.randint(2000, 10000))
        {step}
    print(json.dumps([peak(), {values}]))
"""
    session = "with pgmo.optimize(device='cuda') as session:"
    values = "phases(session), str(session.summary())"
    with_session, seen, summary = run(
        code.format(before=session, step="session.step()", values=values)
    )
    alone, *_ = run(code.format(before="if True:", step="", values="None"))
    assert with_session <= alone + 2 * MIB
    assert set(seen) == {"record", "backoff"}
    assert seen.count("record") < 20
    assert "plan       none serves: " in summary


def test_a_plan_waits_for_room_between_what_lives():
    """Persistent blocks lie between blocks that repeat, so no arena fits into their gaps."""
    code = """
def iterate(kept=None):
    blocks = []
    for _ in range(12):
        blocks.append(block(3 << 19))
        if kept is not None:
            kept.append(block(3 << 19))
kept = []
{before}
    iterate(kept)
    {step}
    for _ in range(11):
        iterate()
        {step}
    high, waiting = peak(), {values}
    kept.clear()
    for _ in range(16):
        iterate()
        {step}
    print(json.dumps([high, peak(), waiting, {values}]))
"""
    session = "with pgmo.optimize(device='cuda') as session:"
    values = "[phases(session), str(session.summary())]"
    high, end, (seen, summary), (later, _) = run(
        code.format(before=session, step="session.step()", values=values)
    )
    alone, end_alone, *_ = run(code.format(before="if True:", step="", values="None"))
    assert high == alone
    assert end == end_alone
    assert set(seen) == {"record", "backoff"}
    assert "with a plan, the program would take" in summary
    assert later[-4:] == ["replay"] * 4


def test_within_a_budget_there_is_always_a_plan():
    """Only plans spill: without a plan all blocks would be on the card."""
    seen, spilled = run(
        """
warnings.simplefilter("ignore")
with pgmo.optimize(device="cuda", budget="150 MiB") as session:
    for _ in range(30):
        iterate(chance.randint(2000, 10000))
        session.step()
    print(json.dumps([phases(session), session.plan.spilled]))
"""
    )
    assert "backoff" not in seen
    assert spilled > 0


GROWING = """
import contextlib, copy
from torch import nn
layers = [layer for _ in range(12) for layer in (nn.Linear(512, 512), nn.GELU())]
model = nn.Sequential(*layers).cuda()
average = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters())
def step(at):
    loss = model(torch.zeros(1024 + (at // 4) * 512, 512, device="cuda")).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for one, other in zip(average.parameters(), model.parameters()):
            one.copy_(one.lerp(other, 0.1))
with {opened} as session:
    for at in range(12):
        step(at)
        {ended}
print(json.dumps(peak()))
"""


def test_batches_that_grow_take_no_more_than_on_pages_alone():
    """A larger arena would not fit into the holes between live blocks."""
    opened = "pgmo.optimize(device='cuda')"
    with_session = run(GROWING.format(opened=opened, ended="session.step()"))
    alone = run(GROWING.format(opened="contextlib.nullcontext()", ended=""))
    assert with_session <= alone + 2 * MIB


@pytest.mark.parametrize("every", [4, 16])
def test_a_few_equal_iterations_are_no_reason_for_a_plan_if_others_lie_between(every):
    """Few iterations have another structure, as with lazy regularisation."""
    code = """
{before}
    gradients = []
    for step in range(80):
        gradients.clear()
        iterate(6000)
        gradients += [block(3 << 20) for _ in range(9)]
        if step % {every} == {every} - 1:
            iterate(12000, 6)
        {step}
    print(json.dumps([peak(), sum(driver_calls().values())]))
"""
    opened = "with pgmo.optimize(device='cuda') as session:"
    with_session = run(code.format(before=opened, step="session.step()", every=every))
    assert with_session == run(code.format(before="if True:", step="", every=every))


def test_after_iterations_of_other_lengths_equal_ones_get_a_plan():
    code = """
with pgmo.optimize(device="cuda") as session:
    for step in range(40):
        iterate(3000 + 500 * max(0, 5 - step))
        session.step()
    print(json.dumps(phases(session)))
"""
    assert run(code)[-20:] == ["replay"] * 20


def test_steps_that_repeat_only_together_get_a_plan():
    """Gradients of each model live through the step of the other one."""
    seen, calls = run(
        """
gradients = {}
with pgmo.optimize(device="cuda") as session:
    for step in range(40):
        model = step % 2
        gradients.pop(model, None)
        iterate(4000 + 3000 * model, 8 + 2 * model)
        gradients[model] = [block((2 + model) << 20) for _ in range(6)]
        session.step()
        if step == 30:
            driver_calls(reset=True)
    print(json.dumps([phases(session), sum(driver_calls().values())]))
"""
    )
    assert seen[-4:] == ["replay"] * 4
    assert calls == 0


def test_equal_models_in_turn_take_no_more_than_on_pages_alone():
    """A plan that lacks more pages than windows move would move pages in each iteration."""
    code = """
gradients = {{}}
{before}
    for step in range(80):
        gradients.pop(step % 2, None)
        iterate(5000, 10)
        gradients[step % 2] = [block((3 + layer % 2) << 20) for layer in range(10)]
        {step}
    print(json.dumps([peak(), sum(driver_calls().values())]))
"""
    opened = "with pgmo.optimize(device='cuda') as session:"
    with_session = run(code.format(before=opened, step="session.step()"))
    assert with_session == run(code.format(before="if True:", step=""))
