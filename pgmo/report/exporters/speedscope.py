"""The peak as a flame graph for https://www.speedscope.app, which opens files without a server.

    profile "by stack"     a sample for each path of calls, its weight the bytes live at the peak
    profile "by module"    the same by modules, with the operators in them

Source: speedscope's JSON schema (https://www.speedscope.app/file-format-schema.json): a file with
`shared.frames` and sampled profiles, whose samples are stacks of frames, outermost first.
"""

import json
from collections.abc import Iterator
from typing import Any, TextIO

from pgmo.profiler.profile import Profile
from pgmo.report.findings.nesting import Bar, by_module, by_stack
from pgmo.version import __version__

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write_speedscope(profile: Profile, out: TextIO) -> None:
    """Writes who holds the peak; by module only where modules are known.

    Example:
        >>> import io
        >>> out = io.StringIO()
        >>> write_speedscope(Profile.from_columns(size=[8], start=[0], end=[1], ticks=1), out)
        >>> json.loads(out.getvalue())["profiles"][0]["weights"]
        [8]
    """
    frames: dict[str, int] = {}
    trees = [("by stack", by_stack(profile))]
    if any(tag.module for tag in profile.tags):
        trees.append(("by module", by_module(profile)))
    profiles = [_sampled(name, tree, frames) for name, tree in trees]
    document = {
        "$schema": SCHEMA,
        "name": profile.meta.model or "one iteration",
        "exporter": f"pgmo {__version__}",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    json.dump(document, out)
    out.write("\n")


def _sampled(name: str, tree: Bar, frames: dict[str, int]) -> dict[str, Any]:
    samples, weights = [], []
    for path, size in _own(tree, ()):
        samples.append([frames.setdefault(one, len(frames)) for one in path])
        weights.append(size)
    return {
        "type": "sampled",
        "name": f"live bytes at the peak, {name}",
        "unit": "bytes",
        "startValue": 0,
        "endValue": tree.size,
        "samples": samples,
        "weights": weights,
    }


def _own(bar: Bar, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each path with the bytes that belong to nothing below it, the largest first at each level."""
    own = bar.size - sum(child.size for child in bar.children.values())
    if own:
        yield path, own
    for child in sorted(bar.children.values(), key=lambda one: (-one.size, one.name)):
        yield from _own(child, (*path, child.name))
