"""Memory and attributes of a card."""

from pgmo.allocator.adapters.device_memory import DeviceMemory


def test_the_room_counts_not_the_card():
    card = DeviceMemory("cuda:0", free=10, total=80, concurrent=True)
    assert card.oversubscription(25) == 2.5
    assert card.oversubscription(0) == 0
    card.require_managed()


def test_a_card_without_room():
    assert DeviceMemory("cuda:0", free=0, total=80, concurrent=True).oversubscription(8) == 1
    assert DeviceMemory("cuda:0", free=0, total=80, concurrent=True).oversubscription(0) == 0
