import threading

import pytest

from pgmo.profiler.tagging import origin


def test_a_declaration_holds_inside_and_for_its_thread():
    received = []
    with origin.declare("a", "forward"):
        with origin.declare("b", "recompute"):
            assert origin.declared() == ("b", "recompute")
        assert origin.declared() == ("a", "forward")
        other = threading.Thread(target=lambda: received.append(origin.declared()))
        other.start()
        other.join()
    assert received == [None]
    assert origin.declared() is None


def test_an_error_ends_the_declaration():
    with pytest.raises(KeyError), origin.declare("a", "forward"):
        raise KeyError
    assert origin.declared() is None


def test_listeners_may_overlap():
    assert not origin.listening()
    with origin.listen():
        with origin.listen():
            assert origin.listening()
        assert origin.listening()
    assert not origin.listening()
