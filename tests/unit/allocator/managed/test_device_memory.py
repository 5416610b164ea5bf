"""What a card says of itself."""

import pytest

from pgmo.allocator.adapters.device_memory import DeviceMemory
from pgmo.errors import AdapterError


def test_the_room_counts_not_the_card():
    card = DeviceMemory("cuda:0", free=10, total=80, concurrent=True)
    assert card.oversubscription(25) == 2.5
    assert card.oversubscription(0) == 0
    card.require_managed()


def test_a_card_without_room():
    assert DeviceMemory("cuda:0", free=0, total=80, concurrent=True).oversubscription(8) == 1
    assert DeviceMemory("cuda:0", free=0, total=80, concurrent=True).oversubscription(0) == 0


def test_where_it_is_unsupported_it_says_what_works():
    with pytest.raises(AdapterError) as caught:
        DeviceMemory("cuda:1", free=1, total=8 << 30, concurrent=False).require_managed()
    assert str(caught.value) == (
        "cuda:1 cannot use unified memory beyond its 8.00 GiB: its attribute "
        "concurrentManagedAccess is 0 (so it is under Windows and WSL, and on cards before "
        "Pascal). What works there: recomputation, or gradient accumulation"
    )
