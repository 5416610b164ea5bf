"""`pgmo.extrapolate`: from profiles at small sizes to one at a size that was never run.

batch   2  4  8            64
        |  |  |  fitted     |
        p  p  p ----------> profile.at(batch=64)      planned and replayed like a recording
"""

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import OptionError, ProfileError
from pgmo.profiler.correspondence import check_correspondence
from pgmo.profiler.extrapolation import Extrapolation
from pgmo.profiler.profile import CUDA_ALIGNMENT, Profile
from pgmo.profiler.size_laws import Point, fit


def extrapolate(
    profiles: Sequence[Profile | str | os.PathLike[str]], /, **parameters: Sequence[int]
) -> Extrapolation:
    """Learns how each request of a loop follows from the batch size, the length, or both.

    Requests correspond by their number. The size of each is fitted in exact arithmetic: constant,
    affine in the parameters, or with products and squares of them, where the profiles demand it.
    Sizes that follow no such law, as workspaces do, get an estimate from above. Lifetimes,
    persistent blocks and origins come along.

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
    # The first is the one that the others are compared with, the last gives what is not fitted.
    order = sorted(range(len(given)), key=lambda at: points[at])
    given, points = [given[at] for at in order], [points[at] for at in order]
    check_correspondence(given, [_name(names, point) for point in points])
    sizes = np.stack([profile.size for profile in given], axis=1)
    distinct, row = np.unique(sizes, axis=0, return_inverse=True)
    return Extrapolation(
        names=names,
        points=tuple(points),
        profiles=tuple(given),
        laws=tuple(fit(points, distinct)),
        row=row.reshape(-1),
        unit=_unit(given[-1], distinct),
    )


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
    matrix = np.array([(1, *point) for point in points], np.float64).reshape(count, -1)
    least = len(parameters) + 1
    if count < least or np.linalg.matrix_rank(matrix) < least:
        raise OptionError(
            f"{count} profiles at {', '.join(map(str, points)) or 'no point'} do not tell apart "
            f"what depends on {' and '.join(parameters)}; record {least} at least, in which each "
            "parameter changes while the others stay"
        )
    if len(set(points)) < count:
        raise OptionError("two profiles are of the same point; give one for each")
    return points


def _name(names: tuple[str, ...], point: Point) -> str:
    return ", ".join(f"{name}={value}" for name, value in zip(names, point, strict=True))


def _unit(profile: Profile, sizes: NDArray[np.int64]) -> int:
    """What recorded sizes are rounded to: some logs have what was taken, not what was asked for."""
    rounded = profile.meta.device.startswith("cuda") and not np.any(sizes % CUDA_ALIGNMENT)
    return CUDA_ALIGNMENT if rounded else 1
