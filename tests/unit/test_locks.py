import os
import threading

import pytest

from pgmo.locks import new_lock, new_reentrant_lock


@pytest.mark.parametrize("make", [new_lock, new_reentrant_lock])
def test_a_forked_child_finds_it_free(make):
    lock = make()
    held, over = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(blocking=False) else 1)
    over.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
