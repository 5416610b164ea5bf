"""Profiles for tests of the report."""

from pathlib import Path

import numpy as np

from pgmo.profiler.profile import NEVER, Profile, ProfileMeta
from pgmo.profiler.tag import Tag
from pgmo.report.page.html import render

KIB = 1024
HOSTILE = "Net.</script><script>document.title='gone'</script>"
"""A module's name that would end the page's script if it were not escaped."""

TAGS = (
    Tag("Net.conv", "aten.convolution", "forward", "net.py:7 in forward", ("net.py:7 in forward",)),
    Tag("Net.head", "aten.addmm", "forward", "net.py:9 in forward"),
    Tag("Net.conv", "aten.convolution_backward", "backward"),
    Tag(HOSTILE, "aten.mul", "optimizer"),
)


def small_profile(**changes: object) -> Profile:
    """Return a profile of eight blocks: plain, wrapping, doubly live, varying and persistent.

    0  conv      |====================)        |
    1  head      |    [=========)              |
    2  backward  |        [=====)              |
    3  wrapping  |====)       [================|===)
    ...
    """
    columns: dict[str, object] = {
        "size": [8 * KIB, 4 * KIB, 2 * KIB, 4 * KIB, 1 * KIB, 6 * KIB, 512, 2 * KIB],
        "start": [0, 1, 2, 3, 4, 5, 6, 7],
        "end": [5, 4, 4, 10, 6, 7, 8 + 8, NEVER],
        "tag": [0, 1, 2, 3, -1, 2, 1, 3],
        "varying": [False, True, False, False, False, False, False, False],
        "ticks": 8,
        "tags": TAGS,
        "meta": ProfileMeta(framework="torch", device="cuda:0", model="small"),
        **changes,
    }
    return Profile.from_columns(**columns)  # type: ignore[arg-type]


def large_profile(blocks: int = 100_000, seed: int = 0) -> Profile:
    """Return a profile of random sizes and lifetimes, as large as a page may have."""
    random = np.random.default_rng(seed)
    start = np.arange(blocks)
    life = np.exp(random.uniform(0, np.log(blocks / 400), blocks)).astype(np.int64) + 1
    size = np.exp(random.uniform(5, 16, blocks)).astype(np.int64) + 1
    tags = tuple(
        Tag(f"Net.blocks.{layer}.{part}", op, phase, f"net.py:{layer} in forward")
        for layer in range(24)
        for part in ("attention", "mlp")
        for op, phase in (("aten.mm", "forward"), ("aten.add", "backward"))
    )
    return Profile.from_columns(
        size=size,
        start=start,
        end=start + life,
        ticks=blocks,
        tag=random.integers(0, len(tags), blocks),
        tags=tags,
        meta=ProfileMeta(model="large"),
    )


def write_report(profile: Profile, path: Path) -> Path:
    """Write the page of a profile, and return its path."""
    path.write_text(render(profile), encoding="utf-8")
    return path
