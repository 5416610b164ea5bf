"""Tests of the reason that is printed of an error, which may be nested or have a long text."""

from pgmo.rehearsal.child.obstacles import reason_of, shortened


def _caught(run) -> Exception:
    try:
        run()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def _deferred() -> None:
    """Raise an error as torch's initialization of CUDA does, with an earlier caller in its text."""
    try:
        raise RuntimeError("device 0 is gone")
    except RuntimeError as error:
        asked = '  File "torch/cuda/__init__.py", line 251\n    queued.append(call)\n'
        text = f"call failed with error: {error}\n\nit was invoked at:\n\n{asked}"
        raise ValueError(text) from error


def test_the_cause_is_reported_and_not_the_last_line():
    assert reason_of(_caught(_deferred)) == (
        "ValueError: call failed with error: device 0 is gone (from RuntimeError: device 0 is gone)"
    )


def test_an_error_that_hides_its_context_stands_alone():
    def run() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second") from None

    assert reason_of(_caught(run)) == "ValueError: second"


def test_a_ring_of_causes_ends():
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert reason_of(one).startswith("ValueError: one")


def test_an_error_without_a_text_is_named():
    assert reason_of(AssertionError()) == "AssertionError"


def test_a_long_text_keeps_its_beginning_and_its_end():
    text = "first\n" + "middle\n" * 1000 + "last"
    short = shortened(text, 100)
    assert len(short) < 120
    assert short.startswith("first")
    assert short.endswith("last")
