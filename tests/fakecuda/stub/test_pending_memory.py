"""The stub notices if mapped memory is unmapped or given away while pending work uses it."""

import pytest
import torch

from tests.fakecuda import driver
from tests.fakecuda.control import held, hold, violations
from tests.fakecuda.driver import PAGE


@pytest.fixture(autouse=True)
def _none_yet():
    torch.cuda.synchronize()
    violations(reset=True)


@pytest.fixture
def streams():
    return torch.cuda.Stream(), torch.cuda.Stream()


@pytest.fixture
def place():
    """Yield four reserved addresses, with a page mapped at the first one."""
    handle, address = driver.create(PAGE), driver.reserve(4 * PAGE)
    driver.map_at(address, PAGE, handle)
    yield address, handle
    torch.cuda.synchronize()
    for at in range(4):
        if driver.is_mapped(address + at * PAGE):
            driver.unmap(address + at * PAGE, PAGE)
    driver.release(handle)
    driver.free_addresses(address, 4 * PAGE)


def use(address, stream, size=64):
    """Submit a set, whose bytes the stub knows."""
    driver.set_bytes(address, 1, size, stream.cuda_stream)


def launch(stream):
    """Launch a kernel, which may use any mapped memory."""
    with torch.cuda.stream(stream):
        torch.ones((), device="cuda").add_(1)


def certain():
    return violations(kernels=False)


# --- unmapping ----------------------------------------------------------------------------------


def test_memory_is_not_unmapped_under_a_pending_set(place, streams):
    address, _ = place
    with held(streams[0]):
        use(address, streams[0])
        driver.unmap(address, PAGE)
        assert certain() == 1
    assert violations(reset=True) == 1
    assert violations() == 0


def test_memory_that_was_used_before_the_hold_may_go(place, streams):
    address, _ = place
    use(address, streams[0])
    used = streams[0].record_event()
    with held(streams[0]):
        assert used.query()
        driver.unmap(address, PAGE)
    assert violations() == 0


@pytest.mark.parametrize("end", ["event", "stream", "device"])
def test_an_unmap_after_a_wait_is_no_violation(place, streams, end):
    address, _ = place
    hold(streams[0])
    use(address, streams[0])
    event = streams[0].record_event()
    waits = {
        "event": event.synchronize,
        "stream": streams[0].synchronize,
        "device": torch.cuda.synchronize,
    }
    waits[end]()
    driver.unmap(address, PAGE)
    assert violations() == 0


def test_only_the_address_in_use_has_to_stay(place, streams):
    address, handle = place
    driver.map_at(address + PAGE, PAGE, handle)
    with held(streams[0]):
        use(address, streams[0])
        driver.unmap(address + PAGE, PAGE)
        assert violations() == 0
        driver.unmap(address, PAGE)
        assert certain() == 1


def test_both_ends_of_a_copy_are_in_use(place, streams):
    address, _ = place
    other = driver.create(PAGE)
    driver.map_at(address + PAGE, PAGE, other)
    with held(streams[0]):
        driver.copy_bytes(address + PAGE, address, 64, streams[0].cuda_stream)
        driver.unmap(address, 2 * PAGE)
        assert certain() == 2
    driver.release(other)


def test_a_set_over_several_maps_uses_all_of_them(place, streams):
    address, _ = place
    others = [driver.create(PAGE), driver.create(PAGE)]
    for at, other in enumerate(others):
        driver.map_at(address + (at + 1) * PAGE, PAGE, other)
    with held(streams[0]):
        use(address + PAGE - 8, streams[0], 16)
        driver.unmap(address + 2 * PAGE, PAGE)
        assert violations() == 0
        driver.unmap(address, 2 * PAGE)
        assert certain() == 2
    for other in others:
        driver.release(other)


def test_a_replayed_graph_uses_what_it_captured(place):
    address, _ = place
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        use(address, stream)
    with held(stream), torch.cuda.stream(stream):
        graph.replay()
        driver.unmap(address, PAGE)
        assert certain() == 1


# --- kernels ------------------------------------------------------------------------------------


def test_a_pending_kernel_may_use_all_that_was_mapped(place, streams):
    address, _ = place
    with held(streams[0]):
        launch(streams[0])
        driver.unmap(address, PAGE)
    assert violations() == 1
    assert certain() == 0  # the stub cannot know the kernel's bytes


def test_a_kernel_does_not_use_what_is_mapped_later(place, streams):
    address, handle = place
    with held(streams[0]):
        launch(streams[0])
        driver.map_at(address + PAGE, PAGE, handle)
        driver.unmap(address + PAGE, PAGE)
        assert violations() == 0
        driver.map_at(address + PAGE, PAGE, handle)
        launch(streams[0])
        driver.unmap(address + PAGE, PAGE)
        assert violations() == 1


def test_a_held_stream_without_work_uses_nothing(place, streams):
    with held(streams[0]):
        driver.unmap(place[0], PAGE)
    assert violations() == 0


def test_kernels_are_done_when_the_stream_is_released(place, streams):
    with held(streams[0]):
        launch(streams[0])
    driver.unmap(place[0], PAGE)
    assert violations() == 0


def test_kernels_of_another_card_use_what_they_have_access_to(place):
    address, handle = place
    driver.map_at(address + PAGE, PAGE, handle)
    driver.allow(address + PAGE, PAGE, 1)
    with torch.cuda.device(1):
        stream = torch.cuda.Stream()
        with held(stream):
            launch(stream)
            driver.unmap(address, PAGE)
            assert violations() == 0
            driver.unmap(address + PAGE, PAGE)
            assert violations() == 1


# --- another stream -----------------------------------------------------------------------------


def test_one_stream_may_use_a_page_at_two_addresses(place, streams):
    address, handle = place
    with held(streams[0]):
        use(address, streams[0])
        driver.map_at(address + PAGE, PAGE, handle)
        use(address + PAGE, streams[0])
    assert violations() == 0


def test_a_page_in_use_is_not_handed_to_another_stream(place, streams):
    address, handle = place
    first, second = streams
    with held(first):
        use(address, first)
        driver.map_at(address + PAGE, PAGE, handle)
        assert violations() == 0  # until another stream uses it
        use(address + PAGE, second)
        assert certain() == 1


def test_a_page_is_handed_over_behind_an_event_of_its_last_user(place, streams):
    address, handle = place
    first, second = streams
    driver.map_at(address + PAGE, PAGE, handle)
    with held(first):
        use(address, first)
        second.wait_event(first.record_event())
        use(address + PAGE, second)
        assert violations() == 0
        driver.unmap(address + PAGE, PAGE)
        assert certain() == 1  # the second stream's use is pending


def test_an_event_from_before_the_use_orders_nothing(place, streams):
    address, _ = place
    first, second = streams
    with held(first):
        use(address + 4096, first)  # only this set is before the event
        early = first.record_event()
        use(address, first)
        second.wait_event(early)
        use(address + 4096, second)
        assert violations() == 0
        use(address, second)
        assert certain() == 1


def test_order_is_inherited_over_a_third_stream(place, streams):
    address, _ = place
    first, second = streams
    third = torch.cuda.Stream()
    with held(first):
        use(address, first)
        second.wait_event(first.record_event())
        third.wait_event(second.record_event())
        use(address, third)
    assert violations() == 0


def test_streams_may_read_the_same_page_or_write_apart(place, streams):
    address, _ = place
    first, second = streams
    targets = driver.create(PAGE)
    driver.map_at(address + PAGE, PAGE, targets)
    with held(first):
        driver.copy_bytes(address + PAGE, address, 64, first.cuda_stream)
        driver.copy_bytes(address + PAGE + 64, address, 64, second.cuda_stream)
        use(address + 64, second)
        assert violations() == 0
        use(address + 63, second)
        assert certain() == 1
    driver.release(targets)
