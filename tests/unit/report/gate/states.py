"""A profile of a small program in several states."""

from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag

TAGS = (Tag("Net.a", "aten.addmm", "forward"), Tag("Net.b", "aten.relu", "forward"))


def state(second=3000, persistent=0):
    """Return a profile of two blocks that are live at once, of 1000 and `second` bytes.

    Args:
        second: bytes of the block of Net.b.
        persistent: bytes of a further block, which is never freed; 0: no such block.
    """
    blocks = [(1000, 0, 3, 0), (second, 1, 4, 1)]
    if persistent:
        blocks.append((persistent, 2, -1, 1))
    size, start, end, tag = zip(*blocks, strict=True)
    return Profile.from_columns(size=size, start=start, end=end, tag=tag, tags=TAGS, ticks=3)
