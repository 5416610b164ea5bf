"""State that sleeps gives its pages back to the card, and keeps its addresses and contents.

The first four tests follow the examples of `torch_memory_saver` and of vLLM's sleep mode: regions
that are paused with and without a copy, one after the other, and beneath a captured graph.
"""

import itertools

from tests.fakecuda.pages.block_program import BEGIN, MIB
from tests.fakecuda.programs import run_program

NETWORK = (
    BEGIN
    + """
from pgmo.allocator import heuristics
# Else so small a program has no room beside its weights.
heuristics.use(heuristics.Heuristics(price=0))
layers = torch.nn.ModuleList(torch.nn.Linear(1024, 1024, device="cuda") for _ in range(8))
optimizer = torch.optim.Adam(layers.parameters())

def train(times):
    for _ in range(times):
        x = torch.zeros(2048, 1024, device="cuda")
        for layer in layers:
            x = torch.relu(layer(x))
        x.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        del x
        session.step()

def states():
    return [t for state in optimizer.state.values() for t in state.values() if t.is_cuda]

def filled(tensors):
    for tensor in tensors:
        tensor.data.copy_(torch.randn(tensor.shape))
    return [tensor.detach().cpu() for tensor in tensors], [t.data_ptr() for t in tensors]

def same(tensors, kept):
    values, addresses = kept
    here = [tensor.data_ptr() for tensor in tensors] == addresses
    return here and all(torch.equal(t.detach().cpu(), v) for t, v in zip(tensors, values))

def refused(call):
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error).split(":")[0]]
    return None
"""
)


def run(code, **environment):
    return run_program(NETWORK + code, **environment)


def test_a_tensor_without_a_copy_keeps_its_address_and_gives_its_memory_back():
    before, asleep, after, kept, usable = run(
        """
with pgmo.optimize() as session:
    normal, cache = torch.zeros(4 << 20, device="cuda"), torch.zeros(64 << 20, device="cuda")
    values = filled([normal])
    address, before = cache.data_ptr(), used()
    session.release(state="drop", of=cache)
    asleep = used()
    session.resume()
    cache.copy_(torch.ones(64 << 20))
    usable = cache.data_ptr() == address and cache[-1].item() == 1
    report(before, asleep, used(), same([normal], values), usable)
"""
    )
    assert before - asleep == 256 * MIB
    assert after == before
    assert kept
    assert usable


def test_groups_sleep_and_wake_one_by_one():
    levels, weights_back, unused = run(
        """
with pgmo.optimize() as session:
    cache = torch.zeros(64 << 20, device="cuda")
    kept = filled(list(layers.parameters()))
    levels = [used()]
    weights = session.release(state="host", of=layers)
    levels.append(used())
    dropped = session.release(state="drop", of=cache)
    levels.append(used())
    session.resume(weights)
    levels.append(used())
    back = same(list(layers.parameters()), kept)
    session.resume(dropped)
    levels.append(used())
    report(levels, back, session.asleep)
"""
    )
    weights = 8 * (1024 * 1024 + 1024) * 4
    falls = [one - other for one, other in itertools.pairwise(levels)]
    assert weights - 4 * MIB <= falls[0] <= weights + 4 * MIB
    assert falls[1] == 256 * MIB
    assert falls[2] == -falls[0]
    assert falls[3] == -falls[1]
    assert weights_back
    assert unused == 0


def test_a_graph_that_was_captured_before_replays_afterwards():
    seen, fallen = run(
        """
source, target = torch.zeros(4 << 20, device="cuda"), torch.zeros(4 << 20, device="cuda")
graph = torch.cuda.CUDAGraph()
with pgmo.optimize() as session:
    with torch.cuda.graph(graph):
        target.copy_(source)
    before = used()
    session.release(state="host", of=[source, target])
    fallen = before - used()
    session.resume()
    seen = []
    for value in (3.0, 4.0):
        source.copy_(torch.full((4 << 20,), value))
        graph.replay()
        seen.append(target[-1].item())
    report(seen, fallen)
"""
    )
    assert seen == [3.0, 4.0]
    assert fallen == 32 * MIB


def test_an_engine_sleeps_while_another_program_part_has_its_memory():
    """This is level 1 of vLLM's sleep mode, with training between sleep and wake."""
    idle, trained, kept = run(
        """
cache = torch.zeros(100 << 20, device="cuda")
with pgmo.optimize() as session:
    values = filled(list(layers.parameters())[:2])
    session.release(state="drop", of=cache)
    idle = used()
    train(6)
    session.release()
    trained = peak()
    session.resume()
    report(idle, trained, same(list(layers.parameters())[:2], values))
""",
        FAKECUDA_BYTES=str(700 * MIB),  # too small for both parts at the same time
    )
    assert idle < 50 * MIB
    assert trained <= 700 * MIB
    assert kept


def test_the_card_falls_by_the_state_and_all_of_it_comes_back():
    levels, size, kept, rates, pending = run(
        """
with pgmo.optimize() as session:
    train(8)
    values, levels = filled(states()), []
    levels.append(used())
    print(session.release())
    levels.append(used())
    train(2)
    levels.append(used())
    session.release(state="host")
    levels.append(used())
    session.resume()
    levels.append(used())
    kept = same(states(), values)
    train(3)
    rates = [one.planned_bytes_rate for one in session.history[-5:]]
    size = sum(state.nbytes for state in states())
    report(levels, size, kept, rates, violations(kernels=False))
"""
    )
    full, without_arena, full_again, asleep, awake = levels
    assert full - without_arena > 60 * MIB
    assert full_again == full
    assert size <= without_arena - asleep <= size + 4 * MIB
    assert awake == without_arena
    assert kept
    assert min(rates) >= 0.999
    assert pending == 0


def test_an_error_names_what_sleeps_if_it_is_used():
    of_iterator, step, call, copy, of_layer, inside, later = run(
        """
with pgmo.optimize() as session:
    train(3)
    session.release(of=iter([optimizer, layers.children()]), state="host")
    of_iterator = [refused(optimizer.step), refused(lambda: layers[0](torch.zeros(2, 1024)))]
    session.resume()
    session.release(of=[optimizer, layers], state="host")
    step, call = refused(optimizer.step), refused(lambda: layers[0](torch.zeros(2, 1024)))
    copy = refused(lambda: states()[0].cpu())
    session.resume()
    session.release(of=layers[0], state="host")
    of_layer = refused(optimizer.step)
    session.resume()
    with session.iteration():
        inside = refused(session.release)
    train(1)
    report(of_iterator, step, call, copy, of_layer, inside, refused(optimizer.step))
"""
    )
    assert of_iterator == [step, call]
    assert step == ["SessionError", "the state of this Adam sleeps"]
    assert call == ["SessionError", "the memory of this Linear sleeps"]
    assert copy is not None
    assert of_layer == ["SessionError", "parameters of this Adam sleep"]
    assert inside[0] == "SessionError"
    assert later is None


def test_without_memory_to_wake_all_sleeps_on_until_there_is_some():
    error, asleep, kept = run(
        """
with pgmo.optimize() as session:
    train(3)
    values = filled(states())
    session.release(state="host")
    mine = torch.zeros(560 << 20, dtype=torch.uint8, device="cuda")
    error, asleep = refused(session.resume), session.asleep
    del mine
    session.resume()
    report(error, asleep, same(states(), values))
""",
        FAKECUDA_BYTES=str(692 * MIB),
    )
    assert error[0] == "SessionError"
    assert asleep >= 64 * MIB
    assert kept


def test_addresses_of_tensors_freed_asleep_are_used_again():
    used_again, kept = run(
        """
with pgmo.optimize() as session:
    first, second = torch.zeros(32 << 20, device="cuda"), torch.zeros(32 << 20, device="cuda")
    values = filled([second])
    address = first.data_ptr()
    session.release(state="host", of=[first, second])
    del first
    third = torch.empty(32 << 20, device="cuda")
    third.copy_(torch.full((32 << 20,), 5.0))
    session.resume()
    report(third.data_ptr() == address, same([second], values) and third[-1].item() == 5)
"""
    )
    assert used_again
    assert kept


def test_state_in_segments_of_pytorch_stays_and_is_reported():
    awake, change = run_program(
        NETWORK.replace("torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())", "")
        + """
with pgmo.optimize() as session:
    train(3)
    cache = torch.zeros(768 << 10, device="cuda")  # half of its second page stays empty
    session.release()
    before = used()
    released = session.release(state="host", of=[cache, layers])
    report(released.awake, used() - before)
""",
    )
    assert awake == 8 * (1024 * 1024 + 1024) * 4
    assert change == -4 * MIB
