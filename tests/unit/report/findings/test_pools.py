"""Tests of private pools in snapshots, one for each stream of the modelled device."""

import pytest

from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.report.findings.pools import find_private_pools
from pgmo.report.page.html import render
from pgmo.report.summary import explain, plain
from tests.unit.profiler.importers.snapshots import MIB, Device, save, snapshot

FIRST, SECOND = 7, 8
POOLS = {FIRST: (1, 0), SECOND: (0, 5)}


def read(tmp_path, device, pools=None, change=lambda saved: None):
    saved = snapshot(device)
    for segment in saved["segments"]:
        segment["segment_pool_id"] = (pools or POOLS).get(segment["stream"], (0, 0))
    change(saved)
    (own,) = read_torch_snapshot(save(saved, tmp_path / "a.pickle"))
    return own.trace


def found(tmp_path, device, **options):
    return find_private_pools(read(tmp_path, device, **options))


def capture(device, stream, *, kept, freed):
    """Run a capture that frees some of its blocks, and return the addresses of the others."""
    temporary = [device.alloc(size, stream) for size in freed]
    output = [device.alloc(size, stream) for size in kept]
    for address in temporary:
        device.free(address)
    return output


@pytest.mark.parametrize("expandable", [False, True])
def test_graphs_need_their_survivors_and_the_largest_temporaries(tmp_path, expandable):
    device = Device(expandable=expandable)
    device.alloc(5 * MIB)
    capture(device, FIRST, kept=[2 * MIB], freed=[8 * MIB, 4 * MIB])
    device.alloc(MIB)
    capture(device, SECOND, kept=[4 * MIB], freed=[6 * MIB])
    pools = found(tmp_path, device)
    assert (pools.reserved, pools.alive, pools.needed) == (24 * MIB, 6 * MIB, (2 + 4 + 12) * MIB)
    first, second = pools.pools
    assert (first.pool, first.kind, first.captures) == ("(1, 0)", "graphs", 1)
    assert (first.survivors, first.temporaries, first.carried) == (2 * MIB, 12 * MIB, 0)
    assert (second.survivors, second.temporaries) == (4 * MIB, 6 * MIB)
    assert pools.interleaved is None
    assert pools.sentence() == (
        "24.0 MiB in 2 private pools of graphs or MemPools, 6.00 MiB of it alive; 18.0 MiB if "
        "graphs that replay one after the other shared pages"
    )


def test_a_snapshot_without_private_pools_has_none(tmp_path):
    device = Device()
    device.alloc(5 * MIB)
    assert found(tmp_path, device) is None


def test_temporaries_that_are_never_there_at_once_count_once(tmp_path):
    device = Device()
    for _ in range(3):
        device.free(device.alloc(8 * MIB, FIRST))
    (one,) = found(tmp_path, device).pools
    assert (one.reserved, one.survivors, one.temporaries) == (8 * MIB, 0, 8 * MIB)


def test_forward_and_backward_graphs_that_interleave_need_all_that_they_carry(tmp_path):
    device = Device()
    for stream in (FIRST, SECOND):
        activation = device.alloc(6 * MIB, stream)
        device.free(device.alloc(2 * MIB, stream))
        device.alloc(512)  # the gradient of the output, in no pool
        gradient = device.alloc(4 * MIB, stream)
        device.free(activation)
        device.free(gradient)
    pools = found(tmp_path, device)
    assert [one.captures for one in pools.pools] == [2, 2]
    assert [one.carried for one in pools.pools] == [6 * MIB] * 2
    assert (pools.needed, pools.interleaved) == (10 * MIB, 16 * MIB)
    assert "(16.0 MiB if all forwards precede the backwards)" in pools.sentence()


def test_blocks_freed_between_captures_are_survivors(tmp_path):
    device = Device()
    (output,) = capture(device, FIRST, kept=[4 * MIB], freed=[2 * MIB])
    device.alloc(512)
    device.free(output)
    capture(device, FIRST, kept=[], freed=[2 * MIB])
    (one,) = found(tmp_path, device).pools
    assert (one.alive, one.survivors, one.temporaries) == (0, 4 * MIB, 2 * MIB)
    # A later output at the address of the first one adds no survivors.
    assert capture(device, FIRST, kept=[2 * MIB, 4 * MIB], freed=[8 * MIB])[1] == output
    (one,) = found(tmp_path, device).pools
    assert (one.alive, one.survivors, one.temporaries) == (6 * MIB, 6 * MIB, 8 * MIB)


def test_memory_that_is_returned_ends_a_capture(tmp_path):
    device = Device()
    device.free(device.alloc(2 * MIB))
    (output,) = capture(device, FIRST, kept=[4 * MIB], freed=[])
    device.empty_cache()
    device.free(output)
    capture(device, FIRST, kept=[], freed=[6 * MIB])
    (one,) = found(tmp_path, device).pools
    assert (one.survivors, one.temporaries, one.captures) == (4 * MIB, 6 * MIB, 2)


def test_an_earlier_segment_at_the_same_address_was_in_no_pool(tmp_path):
    device = Device()
    device.free(device.alloc(16 * MIB, FIRST))
    device.empty_cache()
    device._next = 1 << 32
    capture(device, FIRST, kept=[2 * MIB], freed=[])
    (one,) = found(tmp_path, device).pools
    assert (one.survivors, one.temporaries, one.captures) == (2 * MIB, 0, 1)


def test_a_pool_of_the_default_stream_is_no_graph(tmp_path):
    # Weights are converted one by one, and no replay uses the freed ones.
    device = Device()
    weights = [device.alloc(8 * MIB) for _ in range(2)]
    for weight in weights:
        device.alloc(4 * MIB)
        device.alloc(512, stream=9)
        device.free(weight)
    pools = found(tmp_path, device, pools={0: (0, 2)})
    (one,) = pools.pools
    assert (one.kind, one.captures, one.survivors) == ("MemPool", 0, 8 * MIB)
    assert (one.temporaries, pools.needed) == (12 * MIB, 20 * MIB)
    # The replay of another graph does not need the freed weights.
    capture(device, FIRST, kept=[], freed=[6 * MIB])
    assert found(tmp_path, device, pools={0: (0, 2), FIRST: (1, 0)}).needed == 20 * MIB
    capture(device, SECOND, kept=[], freed=[18 * MIB])
    assert found(tmp_path, device, pools={0: (0, 2), **POOLS}).needed == 26 * MIB


@pytest.mark.parametrize("expandable", [False, True])
def test_pools_captured_before_the_recording_are_estimated(tmp_path, expandable):
    device = Device(expandable=expandable)
    capture(device, FIRST, kept=[2 * MIB], freed=[8 * MIB])
    capture(device, SECOND, kept=[2 * MIB], freed=[4 * MIB])
    device.forget(10_000)
    for events in (0, 1):
        pools = found(tmp_path, device)
        assert not any(one.recorded or one.captures for one in pools.pools)
        assert [one.temporaries for one in pools.pools] == [8 * MIB, 4 * MIB]
        assert [one.kind for one in pools.pools] == ["graphs", ""]
        assert pools.needed == 12 * MIB
        assert "; about 12.0 MiB if" in pools.sentence()
        assert "at most: its requests were not recorded" in pools.lines()[1]
        if not events:
            device.alloc(512)


def test_survivors_that_lie_where_temporaries_were_are_not_counted_twice(tmp_path):
    device = Device()
    device.free(device.alloc(8 * MIB, FIRST))
    device.alloc(8 * MIB, FIRST)
    pools = found(tmp_path, device)
    assert (pools.pools[0].survivors, pools.pools[0].temporaries) == (8 * MIB, 0)
    assert pools.needed == pools.reserved == 8 * MIB


def test_reports_have_the_pools(tmp_path):
    device = Device()
    capture(device, FIRST, kept=[2 * MIB], freed=[40 * MIB])
    device.alloc(512)
    capture(device, SECOND, kept=[2 * MIB], freed=[40 * MIB])
    profile = profile_of(read(tmp_path, device))
    explained = explain(profile)
    text = "\n".join(explained.lines())
    assert "pools       84.0 MiB in 2 private pools" in text
    assert "(0, 5) graphs: 42.0 MiB, 2.00 MiB survive, 40.0 MiB temporary, about 1 capture" in text
    assert "hint        Private pools: 40.0 MiB of 84.0 MiB would be free" in text
    assert plain(explained)["pools"]["needed"] == 44 * MIB
    page = render(profile)
    assert "44.0 MiB if graphs that replay one after the other shared pages." in page
    assert "<th scope='row'>(1, 0) graphs</th><td class='number'>42.0 MiB</td>" in page


def test_idle_memory_of_pools_is_no_fragmentation(tmp_path):
    device = Device()
    capture(device, FIRST, kept=[512], freed=[100 * MIB])
    device.alloc(20 * MIB)
    hints = {hint.title for hint in explain(profile_of(read(tmp_path, device))).hints}
    assert "Fragmentation" not in hints
    device.free(device.alloc(60 * MIB))
    device.forget(10_000)
    hints = {hint.title: hint for hint in explain(profile_of(read(tmp_path, device))).hints}
    expected = "PyTorch reserved 80.0 MiB outside of private pools while blocks took 20.0 MiB"
    assert hints["Fragmentation"].text.startswith(expected)
