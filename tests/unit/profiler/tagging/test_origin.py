import threading

import pytest

from pgmo.profiler.tagging import origin


def test_what_was_said_holds_inside_and_for_this_thread():
    heard = []
    with origin.said_of("a", "forward"):
        with origin.said_of("b", "recompute"):
            assert origin.said() == ("b", "recompute")
        assert origin.said() == ("a", "forward")
        other = threading.Thread(target=lambda: heard.append(origin.said()))
        other.start()
        other.join()
    assert heard == [None]
    assert origin.said() is None


def test_an_error_takes_back_what_was_said():
    with pytest.raises(KeyError), origin.said_of("a", "forward"):
        raise KeyError
    assert origin.said() is None


def test_listeners_may_overlap():
    assert not origin.listening()
    with origin.listen():
        with origin.listen():
            assert origin.listening()
        assert origin.listening()
    assert not origin.listening()
