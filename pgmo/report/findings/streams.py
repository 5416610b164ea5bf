"""Requests of each stream, and blocks that several streams use."""

from dataclasses import dataclass, replace

import numpy as np

from pgmo.profiler.profile import Profile


@dataclass(frozen=True)
class StreamUse:
    """One stream in one iteration; sizes in bytes.

    Args:
        stream: handle of the stream.
        requests: number of blocks that are requested on the stream.
        size: sum of the sizes of the stream's blocks.
        max_load: peak of the live bytes of the stream's blocks. Streams share no offsets, so a
            plan's arenas need at least the sum of all streams' peaks.
        shared: number of the stream's blocks that other streams also use. Such blocks get no slot.
        shared_size: sum of the sizes of the stream's shared blocks.
    """

    stream: int
    requests: int
    size: int
    max_load: int
    shared: int
    shared_size: int


def stream_use(profile: Profile) -> tuple[StreamUse, ...]:
    """Return the use of each stream of a profile, most requested bytes first."""
    found = []
    for stream in np.unique(profile.stream):
        mine = profile.stream == stream
        shared = mine & profile.shared
        # Shared blocks are not part of the load, so mark the blocks of all other streams as shared.
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
