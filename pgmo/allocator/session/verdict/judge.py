"""Choice of the verdict: a comparison with plain PyTorch, or only pgmo's figures without a model.

with a model of PyTorch         "7.60 GiB instead of 9.90 GiB (23 % less)"
the difference is below 3 %     "7.60 GiB, about the same as plain PyTorch (7.55 GiB)"
plain PyTorch would run out     "7.60 GiB, where plain PyTorch would have had no room ..."
no model                        the peak of live bytes, and the memory taken for them
"""

from collections.abc import Iterator

from pgmo.allocator.adapters.baseline import Baseline
from pgmo.allocator.session.verdict.summary import Summary
from pgmo.allocator.session.verdict.verdict import Verdict, compared
from pgmo.units import format_bytes

_FEW = 4
"""Number of iterations that a plan may need: a first iteration, two iterations that agree, and one
iteration that shows late frees. After fewer iterations, the verdict states what a plan needs. From
this number on, the verdict states that no iteration could be planned yet."""


def judge(summary: Summary, baseline: Baseline | None = None, no_slots: str = "") -> Verdict:
    """Return the current verdict on a session; `no_slots`: why the session has no slots."""
    reason = no_slots or _why_no_slots(summary)
    if baseline is not None:
        return judge_device(baseline, reason=reason, since=summary.since)
    sentence, taken, live = _of_slots(summary)
    return Verdict(sentence, reason=reason, taken=taken, live=live, since=summary.since)


def judge_device(baseline: Baseline, *, reason: str = "", since: int = 0) -> Verdict:
    """Return the verdict on a device, for the whole process since the model began."""
    wrong = contradictions(baseline)
    taken, live, plain = baseline.peak_taken, baseline.peak_live, baseline.peak_reserved
    basis = (
        f"counted: {format_bytes(taken)} of the card at most, for {format_bytes(live)} of live "
        "bytes at most"
    )
    if wrong or baseline.broken or not plain:
        plain = 0
        sentence = f"live bytes peaked at {format_bytes(live)}; pgmo took {format_bytes(taken)}"
        basis = ""
    elif baseline.failures and not baseline.errors:
        plain = 0
        requests = "a request" if baseline.failures == 1 else f"{baseline.failures:,} requests"
        sentence = (
            f"{format_bytes(taken)}, where plain PyTorch would have had no room for {requests} on "
            f"this card of {format_bytes(baseline.card)}"
        )
    else:
        sentence = compared(taken, plain)
        basis += f"; modelled: {format_bytes(plain)} that plain PyTorch would have reserved"
        if baseline.retries:
            basis += ", giving its cache back when the card is full"
    return Verdict(sentence, basis, reason, wrong, taken=taken, plain=plain, live=live, since=since)


def _of_slots(summary: Summary) -> tuple[str, int, int]:
    """Return the sentence, arena bytes and peak slot bytes of a session without a model."""
    live = summary.peak_slot_bytes
    if not summary.run_bytes_hit or not live:
        return "no block was served from a slot", 0, 0
    arena = max(summary.arena - summary.spilled, 0)
    return (
        f"live bytes in slots peaked at {format_bytes(live)}; their arena takes "
        f"{format_bytes(arena)}",
        arena,
        live,
    )


def _why_no_slots(summary: Summary) -> str:
    """Return why no slot has served; "" if slots have served, or if `summary.waits` says why."""
    if summary.run_bytes_hit or summary.waits or not summary.iterations:
        return ""
    if summary.plans:
        return "no iteration has followed its plan yet"
    if summary.iterations < _FEW:
        return (
            "a plan usually needs a first iteration, two that agree, and one more that shows late "
            f"frees; iterations so far: {summary.iterations}"
        )
    return f"none of the {summary.iterations} iterations could be planned yet"


def contradictions(baseline: Baseline) -> tuple[str, ...]:
    """Return the violated invariants of a device's figures, one clause each; usually none.

    The invariants hold for every program, so a violation is a bug in pgmo. After a violation, the
    verdict makes no comparison.
    """
    return tuple(_of_device(baseline))


def _of_device(one: Baseline) -> Iterator[str]:
    def above(name: str, size: int, limit_name: str, limit: int) -> Iterator[str]:
        if size <= limit:
            return
        figures = format_bytes(size), format_bytes(limit)
        if figures[0] == figures[1]:
            figures = f"{size:,} bytes", f"{limit:,} bytes"
        yield f"{name} {figures[0]}, but {limit_name} {figures[1]}"

    yield from above("taken", one.peak_taken, "the card has", one.card)
    yield from above("modelled", one.peak_reserved, "the card has", one.card)
    if not one.failures and not one.broken:
        yield from above("live", one.peak_live, "modelled", one.peak_reserved)
    if not one.slept:
        yield from above("live", one.peak_live, "taken", one.peak_taken)
    yield from above("taken now", one.taken, "at most", one.peak_taken)
