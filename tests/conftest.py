"""Settings and fixtures of all tests."""

import contextlib
import gc
import signal
import sys

import pytest

# Modules with assertions must be registered before any test imports them.
pytest.register_assert_rewrite(
    "tests.conformance.adapter_suite", "tests.conformance.subjects", "tests.same_bits"
)

from tests.same_bits import use_one_thread  # noqa: E402

use_one_thread()

# A background process of a shell ignores Ctrl-C. The programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines are shared and noisy, so no test may fail because it is slow.
with contextlib.suppress(ImportError):  # tests/gpu runs without hypothesis
    from hypothesis import settings

    settings.register_profile("pgmo", deadline=None)
    settings.load_profile("pgmo")


@pytest.fixture(scope="module", autouse=True)
def quick_collector():
    """Exclude older objects than a file's tests from garbage collections and censuses.

    Each measured step begins with a garbage collection. It takes half a second if the process
    holds thousands of tests.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_tagger_is_left():
    """Check that a test leaves no tagger behind, which would change the results of later tests."""
    yield
    dynamo = sys.modules.get("pgmo.profiler.tagging.dynamo")
    if dynamo is not None:
        origin = sys.modules.get("pgmo.profiler.tagging.origin")
        left = [*(origin._listeners if origin else ()), *dynamo._observers]
        assert not left, left
        assert not dynamo.inside()
