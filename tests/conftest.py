"""What holds for all tests."""

import contextlib
import gc
import signal
import sys

import pytest

# Before anybody imports them: what test files share, and assert with.
pytest.register_assert_rewrite(
    "tests.conformance.adapter_suite", "tests.conformance.subjects", "tests.same_bits"
)

from tests.same_bits import use_one_thread  # noqa: E402

use_one_thread()

# What a shell runs in the background ignores Ctrl-C, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines are shared and noisy: no test fails for being slow.
with contextlib.suppress(ImportError):  # tests/gpu does without it
    from hypothesis import settings

    settings.register_profile("pgmo", deadline=None)
    settings.load_profile("pgmo")


@pytest.fixture(scope="session")
def quick_collector():
    """Leaves what was imported out of collections, with which a measured step begins."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nobody_watches_any_more():
    """A tagger that a test leaves behind would change what the tests after it see."""
    yield
    dynamo = sys.modules.get("pgmo.profiler.tagging.dynamo")
    if dynamo is not None:
        origin = sys.modules.get("pgmo.profiler.tagging.origin")
        left = [*(origin._listeners if origin else ()), *dynamo._observers]
        assert not left, left
        assert not dynamo.inside()
