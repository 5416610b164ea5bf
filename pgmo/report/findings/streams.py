"""What each stream asks for, and which blocks several streams use."""

from dataclasses import dataclass, replace

import numpy as np

from pgmo.profiler.profile import Profile


@dataclass(frozen=True)
class StreamUse:
    """One stream in one iteration; sizes in bytes.

    Args:
        stream: the stream.
        requests: blocks that belong to it.
        size: that they request in all.
        max_load: the most of it alive at once. Blocks of one stream cannot take the place of
            another's, so a plan needs the sum of these over all streams.
        shared: blocks that other streams use, too; these get no slot.
        shared_size: bytes of these.
    """

    stream: int
    requests: int
    size: int
    max_load: int
    shared: int
    shared_size: int


def stream_use(profile: Profile) -> tuple[StreamUse, ...]:
    """The streams of a profile, the one with the most bytes first."""
    found = []
    for stream in np.unique(profile.stream):
        mine = profile.stream == stream
        shared = mine & profile.shared
        # A block that is treated as shared counts in no load.
        alone = replace(profile, shared=profile.shared | ~mine)
        found.append(
            StreamUse(
                stream=int(stream),
                requests=int(mine.sum()),
                size=int(profile.size[mine].sum()),
                max_load=alone.max_load(),
                shared=int(shared.sum()),
                shared_size=int(profile.size[shared].sum()),
            )
        )
    return tuple(sorted(found, key=lambda use: (-use.size, use.stream)))
