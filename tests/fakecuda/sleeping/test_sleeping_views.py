"""Views, tied and overlapping groups keep contents and addresses in any order of sleeping."""

import pytest

from tests.fakecuda.pages.block_program import MIB
from tests.fakecuda.sleeping.test_sleep import run

ATTACK = """
import random
chance = random.Random({seed})

def fresh():
    size = chance.choice([1, 129, 4096, 600_000, 1_500_000, 2_000_003, 5_000_000])
    dtype = chance.choice([torch.float32, torch.float16, torch.uint8, torch.bfloat16])
    return torch.randint(0, 200, (size,)).to(dtype).cuda()

def seen_otherwise(tensor):
    start = chance.randrange(tensor.numel())
    return chance.choice([
        tensor, tensor[start:], tensor[::2], tensor.detach(), tensor.view(torch.uint8),
    ])

def group(tensors):
    module = torch.nn.Module()
    for number, tensor in enumerate(tensors):
        module.register_buffer(f"buffer{{number}}", tensor)
    floats = [tensor for tensor in tensors if tensor.is_floating_point()]
    return chance.choice([
        tensors, tensors[0], module, {{"all": tensors, "one": tensors[0]}},
        torch.nn.ParameterList(floats),
    ])

wrong, slept = [], 0
with pgmo.optimize() as session:
    tensors = [fresh() for _ in range(24)]
    for turn in range({turns}):
        before = [(tensor.cpu(), tensor.data_ptr()) for tensor in tensors]
        asleep, groups = set(), []
        for _ in range(chance.randint(1, 4)):
            chosen = chance.choices(range(len(tensors)), k=chance.randint(1, 5))
            groups.append(session.release(
                state="host", of=group([seen_otherwise(tensors[one]) for one in chosen])
            ))
            asleep.update(chosen)
        slept += session.asleep
        wrong += [(turn, one, "awake") for one in set(range(len(tensors))) - asleep
                  if not torch.equal(tensors[one].cpu(), before[one][0])]
        others = [fresh() for _ in range(chance.randint(0, 6))]
        del others
        chance.shuffle(groups)
        for one in groups if turn % 2 else [None]:
            session.resume(one)
        for one, (values, address) in enumerate(before):
            if tensors[one].data_ptr() != address or not torch.equal(tensors[one].cpu(), values):
                wrong.append((turn, one, "woken"))
        assert session.asleep == 0
        for _ in range(chance.randint(0, 5)):
            tensors[chance.randrange(len(tensors))] = fresh()
        if turn % 3 == 0:
            train(1)
report(wrong, slept)
"""


@pytest.mark.parametrize(
    ("seed", "turns"),
    [(0, 4), *(pytest.param(seed, 60, marks=pytest.mark.slow) for seed in range(1, 6))],
)
def test_contents_and_addresses_stay(seed, turns):
    wrong, slept = run(ATTACK.format(seed=seed, turns=turns))
    assert wrong == []
    assert slept >= turns * 4 * MIB
