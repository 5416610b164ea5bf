"""What holds for all tests."""

import contextlib

import pytest

# Before anybody imports them: what test files share, and assert with.
pytest.register_assert_rewrite("tests.conformance.adapter_suite", "tests.conformance.subjects")

# Machines are shared and noisy: no test fails for being slow.
with contextlib.suppress(ImportError):  # tests/gpu does without it
    from hypothesis import settings

    settings.register_profile("pgmo", deadline=None)
    settings.load_profile("pgmo")
