"""`pgmo.extrapolate`: from profiles at small sizes to one at a size that was never run.

batch   2  4  8            64
        |  |  |  fitted     |
        p  p  p ----------> profile.at(batch=64)      planned and replayed like a recording
"""

import os
from collections.abc import Sequence

import numpy as np

from pgmo.errors import OptionError, ProfileError
from pgmo.profiler.extrapolation.learned import Extrapolation
from pgmo.profiler.extrapolation.row_laws import tell_apart
from pgmo.profiler.extrapolation.size_laws import Point
from pgmo.profiler.profile import Profile


def extrapolate(
    profiles: Sequence[Profile | str | os.PathLike[str]], /, **parameters: Sequence[int]
) -> Extrapolation:
    """Learns how each request of a loop follows from the batch size, the length, or both.

    Requests are paired by operator, size and lifetime. The size of each is fitted in exact
    arithmetic: constant, affine in the parameters, or with products and squares of them, where the
    profiles demand it. Sizes that follow no such law, as workspaces do, get an estimate from above.
    Requests that only some of the profiles have are optional: those of the largest one count.
    Lifetimes, persistent blocks and origins come along.

    Args:
        profiles: of the same program, or paths of them. One more than there are parameters at
            least; three values of a parameter show squares of it.
        **parameters: for each name its value in each profile, such as `batch=[2, 4, 8]`.

    Raises:
        OptionError: when the values are too few, or do not tell the parameters apart.
        ProfileError: when the profiles' requests do not correspond, with the first difference.
        FileError: when a file cannot be read.

    Example:
        >>> def profile(batch):
        ...     return Profile.from_columns(
        ...         size=[100 * batch, 64], start=[0, 1], end=[2, 2], ticks=2
        ...     )
        >>> guess = extrapolate([profile(2), profile(4), profile(8)], batch=[2, 4, 8])
        >>> guess.at(batch=64).size.tolist()
        [6400, 64]
    """
    missing = [at for at, one in enumerate(profiles) if one is None]
    if missing:
        raise ProfileError(
            f"profile {missing[0]} is None: that session has recorded none; give it more iterations"
        )
    given = [one if isinstance(one, Profile) else Profile.load(one) for one in profiles]
    names = tuple(parameters)
    points = _points(len(given), parameters)
    order = sorted(range(len(given)), key=lambda at: points[at])
    return Extrapolation.learn(names, [points[at] for at in order], [given[at] for at in order])


def _points(count: int, parameters: dict[str, Sequence[int]]) -> list[Point]:
    if not parameters:
        raise OptionError(
            "extrapolate() was told no parameter; say what differs, as in batch=[2, 4, 8]"
        )
    for name, values in parameters.items():
        if len(values) != count:
            raise OptionError(
                f"{name}={list(values)!r} has {len(values)} values for {count} profiles; give one "
                "for each"
            )
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise OptionError(f"{name}={value!r} must be a whole number above 0")
    points = [
        tuple(int(value) for value in point) for point in zip(*parameters.values(), strict=True)
    ]
    least = len(parameters) + 1
    if not tell_apart(points):
        raise OptionError(
            f"{count} profiles at {', '.join(map(str, points)) or 'no point'} do not tell apart "
            f"what depends on {' and '.join(parameters)}; record {least} at least, in which each "
            "parameter changes while the others stay"
        )
    if len(set(points)) < count:
        raise OptionError("two profiles are of the same point; give one for each")
    return points
