"""Turns of a process with several sessions and threads."""

import os
import threading

import pytest

from pgmo.allocator.session.threads.process_turns import PASSED_OVER, ProcessTurns
from pgmo.share.client import TurnAnswer


class Client:
    """Fake client that records its calls."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []
        self.held = False

    def take(self):
        answer = self.answers.pop(0) if self.answers else TurnAnswer.TURN
        if not self.held:
            self.calls.append("take")
        self.held = answer is TurnAnswer.TURN
        return answer

    def give(self, *, whole=True):
        self.calls.append("give" if whole else "give a part")
        self.held = False


def made(*answers):
    client, said = Client(*answers), []
    return ProcessTurns(client, said.append), client, said


def on_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_the_process_has_the_turn_as_long_as_any_session_does():
    turns, client, _ = made()
    turns.take("first")
    turns.take("second")
    turns.give("first")
    assert client.calls == ["take"]
    turns.give("second")
    turns.give("second")
    assert client.calls == ["take", "give"]


def test_a_session_that_ends_meanwhile_does_not_end_the_turn_that_another_one_takes():
    turns, client, _ = made()
    turns.take("first")
    take = client.take

    def take_while_the_first_ends():
        answer = take()
        turns.give("first")
        return answer

    client.take = take_while_the_first_ends
    turns.take("second")
    assert client.held
    turns.give("second")
    assert client.calls == ["take", "give"]


def test_a_request_that_is_interrupted_leaves_no_turn():
    turns, client, _ = made()
    take = client.take

    def interrupted():
        raise KeyboardInterrupt

    client.take = interrupted
    with pytest.raises(KeyboardInterrupt):
        turns.take("first")
    client.take = take
    turns.take("second")
    turns.give("second")
    assert client.calls == ["take", "give"]


def test_a_thread_of_the_same_session_does_not_end_anothers_turn():
    turns, client, _ = made()
    turns.take("session")
    on_a_thread(lambda: (turns.take("session"), turns.give("session")))
    assert client.calls == ["take"]
    turns.give("session")
    assert client.calls == ["take", "give"]


def test_the_turn_of_an_opening_ends_with_the_first_iteration_of_any_thread():
    turns, client, _ = made()
    turns.take("session", opening=True)
    on_a_thread(lambda: (turns.take("session"), turns.give("session")))
    assert client.calls == ["take", "give"]


def test_a_thread_that_has_ended_keeps_no_turn():
    turns, client, _ = made()
    on_a_thread(lambda: turns.take("first"))
    turns.take("second")
    turns.give("second")
    assert client.calls == ["take", "give"]


def test_a_session_that_is_closed_keeps_no_turn():
    turns, client, _ = made()
    turns.take("session")
    on_a_thread(lambda: turns.leave("session"))
    assert client.calls == ["take", "give"]


def test_a_program_that_is_passed_over_is_notified():
    turns, client, said = made(TurnAnswer.PASS)
    turns.take("session")
    assert said == [PASSED_OVER]
    turns.give("session", whole=False)
    assert client.calls == ["take", "give a part"]


def test_a_forked_child_leaves_the_turn_to_its_parent():
    turns, client, _ = made()
    turns.take("session")
    child = os.fork()
    if child == 0:
        turns.give("session")
        turns.take("session")
        os._exit(len(client.calls) - 1)
    assert os.waitpid(child, 0)[1] == 0
    assert client.calls == ["take"]
