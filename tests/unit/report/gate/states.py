"""Two states of a small program."""

from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag

TAGS = (Tag("Net.a", "aten.addmm", "forward"), Tag("Net.b", "aten.relu", "forward"))


def state(second=3000, persistent=0):
    """Blocks of 1000 bytes of Net.a and `second` of Net.b, both alive at once."""
    blocks = [(1000, 0, 3, 0), (second, 1, 4, 1)]
    if persistent:
        blocks.append((persistent, 2, -1, 1))
    size, start, end, tag = zip(*blocks, strict=True)
    return Profile.from_columns(size=size, start=start, end=end, tag=tag, tags=TAGS, ticks=3)
