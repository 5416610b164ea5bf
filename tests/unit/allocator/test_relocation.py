"""What a relocation looks at, and what it says; moving itself is in test_moving.py."""

import pytest

from pgmo.allocator import relocation as module
from pgmo.allocator.relocation import Relocation
from tests.unit.allocator.simulated import SimulatedFramework


class StillMover:
    def synchronize(self):
        pass


@pytest.mark.parametrize(("size", "times"), [(module._WORTH_IT - 1, 0), (module._WORTH_IT, 1)])
def test_objects_are_looked_through_only_where_that_can_pay(monkeypatch, size, times):
    scans = []
    monkeypatch.setattr(module, "find_storages", lambda *of: scans.append(of) or {})
    framework = SimulatedFramework(fragments=True)
    framework.install()
    framework.engine.start_recording()  # from now on the engine notes the blocks of others
    framework.request(size)
    relocation = Relocation(framework, StillMover(), lambda: False)
    assert relocation.clear_the_way({}).items == []
    assert len(scans) == times
    assert ("stayed where they were" in relocation.note) is bool(times)


def test_what_is_small_is_not_mentioned():
    relocation = Relocation(SimulatedFramework(), StillMover(), lambda: False)
    relocation.stayed.update({"little": 1000, "much": 1 << 20, module._NOT_MOVED: 1 << 25})
    assert relocation.note == "1.00 MiB stayed where they were: much"
