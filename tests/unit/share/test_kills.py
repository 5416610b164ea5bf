"""Short runs of `make share-kills`, one of them with a broken schedule."""

from pgmo.share.schedule import TurnSchedule
from tests.unit.share import kills


def test_killed_clients_and_brokers_lose_no_page_and_give_none_to_two(tmp_path):
    counted, wrong = kills.run(tmp_path, 40, seed=1)
    assert wrong == []
    assert counted["client"] > 20
    assert counted["broker"] >= 1
    assert counted["turns"] > 100


def test_a_broker_that_gives_turns_to_two_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(TurnSchedule, "_has_room", lambda self, head, running: True)
    _, wrong = kills.run(tmp_path, 5, seed=1)
    assert any("in a turn" in one for one in wrong)  # noticed by pages
    assert any("turns at once" in one for one in wrong)  # noticed in the log
