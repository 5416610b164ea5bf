"""Objects that sleep in phases: refused objects, and when objects wake or are freed."""

from tests.fakecuda.sleeping.phase_program import run_parts


def test_an_error_wakes_everything_and_a_checkpoint_is_refused_before():
    refused, woken, saved = run_parts(
        """
step()
fill(states())
refused = []
try:
    with pgmo.phase("rollout", asleep=[optimizer, reference]):
        refused = [error_of(optimizer.state_dict), error_of(reference.state_dict),
                   error_of(lambda: reference(torch.zeros(1, 2048, device="cuda")))]
        raise KeyError
except KeyError:
    woken = has_values(states())
saved = len(optimizer.state_dict()["state"]), len(reference.state_dict())
report(refused, woken, saved)
"""
    )
    optimizer, reference, call = refused
    assert optimizer.startswith("the contents of this AdamW sleep: begin a pgmo.phase() that")
    assert reference.startswith("the contents of this Sequential sleep")
    assert call.startswith("the memory of this Sequential sleeps")
    assert woken
    assert saved == [4, 4]


def test_lists_that_grow_and_shrink_sleep_as_they_are():
    fallen, awake, texts = run_parts(
        """
import warnings
fallen, awake, lists = [], [], [cache, [*cache, block(40)], cache]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    before = used()
    for drop in lists:
        with pgmo.phase("training", drop=drop) as released:
            fallen.append((before - used()) // MIB)
        awake.append(released.awake)
report(fallen, awake, [str(one.message) for one in caught])
"""
    )
    assert fallen == [80, 120, 80]
    assert awake == [0, 0, 0]
    assert texts == []


def test_weights_are_not_loaded_into_a_sleeping_module_or_put_to_sleep_in_a_capture():
    loaded, captured, kept = run_parts(
        """
fill(reference.parameters())
weights = policy.state_dict()
with pgmo.phase("training", asleep=[reference]):
    loaded = error_of(lambda: reference.load_state_dict(weights))
def capture():
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        optimizer.zero_grad()
        with pgmo.phase("rollout", asleep=[reference]):
            pass
with pgmo.phase("rollout"):
    pass
captured = error_of(capture)
report(loaded, captured, has_values(list(reference.parameters())))
"""
    )
    assert loaded.startswith("the contents of this Sequential sleep")
    assert captured.startswith("memory cannot be released while a CUDA graph is captured")
    assert kept


def test_a_module_with_sparse_gradients_sleeps():
    fallen, kept = run_parts(
        """
rows = torch.nn.Embedding(1 << 15, 512, sparse=True, device="cuda")
fill([rows.weight])
places, ones = torch.zeros(1, 4, dtype=torch.long), torch.ones(4, 512)
rows.weight.grad = torch.sparse_coo_tensor(places, ones, rows.weight.shape).cuda()
before = used()
with pgmo.phase("rollout", asleep=rows):
    fallen = before - used()
with pgmo.phase("training"):
    report(fallen // MIB, has_values([rows.weight]))
"""
    )
    assert fallen == 64
    assert kept


def test_objects_freed_asleep_take_no_memory_when_others_wake():
    fallen, risen, values = run_parts(
        """
fill(engine.parameters())
before = used()
with pgmo.phase("training", asleep=[engine], drop=cache):
    pass
fallen = before - used()
cache.clear()
with pgmo.phase("rollout"):
    report(fallen // MIB, (before - used()) // MIB, has_values(list(engine.parameters())))
"""
    )
    assert fallen >= 64 + 80 - 6
    assert risen == 80
    assert values
