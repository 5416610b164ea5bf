"""What was learned from profiles at small sizes, and what it says about larger ones."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import OptionError, ProfileError
from pgmo.profiler.extrapolation.correspondence import correspond, extra_rows
from pgmo.profiler.extrapolation.row_laws import laws_of, tell_apart
from pgmo.profiler.extrapolation.same_requests import ABSENT, Counterparts
from pgmo.profiler.extrapolation.size_laws import Point, SizeLaw
from pgmo.profiler.profile import CUDA_ALIGNMENT, NEVER, Profile

_SEMAPHORES = 2
"""Ticks that a workspace of a reduction lives on a GPU: it asks for semaphores, too."""


@dataclass(frozen=True, eq=False, repr=False)
class Extrapolation:
    """Profiles of a program at sizes that were not recorded; made by `pgmo.extrapolate`.

    Args:
        names: of the parameters.
        points: their values in each profile, in ascending order.
        profiles: what was recorded there. The last one's requests are the ones that are predicted.
        pairs: for each profile which of its requests is which of the last one's.
        laws: the simplest laws of each distinct combination of sizes.
        row: for each request its place in `laws`, shape (n,).
        unit: sizes are rounded up to a multiple of it, in bytes.

    Example:
        >>> from pgmo.profiler.extrapolation.extrapolate import extrapolate
        >>> sizes = [[64, 100], [64, 200], [64, 400]]
        >>> given = [
        ...     Profile.from_columns(size=two, start=[0, 1], end=[1, 2], ticks=2) for two in sizes
        ... ]
        >>> extrapolate(given, batch=[2, 4, 8])
        Extrapolation(2 requests over batch: 1 constant, 1 affine; batch=8 predicted exactly)
    """

    names: tuple[str, ...]
    points: tuple[Point, ...]
    profiles: tuple[Profile, ...]
    pairs: tuple[Counterparts, ...]
    laws: tuple[tuple[SizeLaw, ...], ...]
    row: NDArray[np.intp]
    unit: int = 1

    @classmethod
    def learn(
        cls, names: tuple[str, ...], points: Sequence[Point], profiles: Sequence[Profile]
    ) -> Self:
        """Pairs the requests of these profiles and fits their sizes.

        Args:
            names: of the parameters.
            points: their values in each profile, in ascending order.
            profiles: what was recorded there.

        Raises:
            ProfileError: when the profiles do not correspond.
        """
        called = [_called(names, point) for point in points]
        pairs = correspond(profiles, points, called)
        sizes = np.stack(
            [one.of(profile.size) for one, profile in zip(pairs, profiles, strict=True)], axis=1
        )
        threads = not profiles[-1].meta.device.startswith("cuda")
        laws, row = laws_of(points, sizes, threads=threads)
        unit = _unit(profiles[-1], sizes)
        return cls(names, tuple(points), tuple(profiles), tuple(pairs), tuple(laws), row, unit)

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        counted = Counter(self.kinds.tolist())
        parts = [f"{counted[kind]} {kind}" for kind in _KINDS if counted[kind]]
        unchecked = ~self.checked & (self.kinds != "upper")
        for what, rows in (
            ("ambiguous", self.ambiguous),
            ("unchecked", unchecked),
            ("optional", self.optional),
        ):
            parts += [f"{int(rows.sum())} {what}"] if rows.any() else []
        if self.held_out is not None:
            total = int(self.profiles[-1].size.sum())
            off = (int(np.abs(self.held_out).sum()) + self.left_over[-2]) / max(1, total)
            told = "exactly" if not off else f"but for {off:.2%} of its bytes"
            parts[-1] += f"; {_called(self.names, self.points[-1])} predicted {told}"
        return f"Extrapolation({len(self)} requests over {', '.join(self.names)}: " + (
            f"{', '.join(parts)})"
        )

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """How each request's size was fitted, shape (n,).

        "constant", "affine" and "quadratic" laws give every recorded size; "upper" is an estimate
        from above, where no law does.
        """
        return np.array([laws[0].kind for laws in self.laws], np.dtype("U9"))[self.row]

    @cached_property
    def checked(self) -> NDArray[np.bool_]:
        """Whether a law met a recorded size that it was not made from, shape (n,)."""
        return np.array([laws[0].checked for laws in self.laws], np.bool_)[self.row]

    @cached_property
    def ambiguous(self) -> NDArray[np.bool_]:
        """Whether several laws are equally simple, shape (n,): the largest size counts then."""
        return np.array([len(laws) > 1 for laws in self.laws], np.bool_)[self.row]

    @cached_property
    def optional(self) -> NDArray[np.bool_]:
        """Whether some of the profiles lack the request, shape (n,), as kernels' workspaces."""
        return _any([pairs.row == ABSENT for pairs in self.pairs])

    @cached_property
    def left_over(self) -> tuple[int, ...]:
        """Bytes in each profile of requests that the largest one lacks: these are not predicted."""
        return tuple(
            int(profile.size[extra_rows(profile, pairs)].sum())
            for profile, pairs in zip(self.profiles, self.pairs, strict=True)
        )

    @cached_property
    def residuals(self) -> NDArray[np.int64]:
        """Fitted less recorded size of each request in each profile, bytes, shape (profiles, n).

        All zero but for estimates from above, and for optional requests where they were not made;
        `held_out` shows more.
        """
        return np.stack(
            [
                self._sizes(point) - pairs.of(profile.size)
                for point, pairs, profile in zip(
                    self.points, self.pairs, self.profiles, strict=True
                )
            ]
        )

    @cached_property
    def held_out(self) -> NDArray[np.int64] | None:
        """What the other profiles predict of the largest one's sizes, less what they are.

        Bytes, shape (n,): the honest measure of what is to be expected further out. A request that
        the next smaller one lacks counts with its whole size. None where these are too few, or do
        not correspond without the largest one.
        """
        if not tell_apart(self.points[:-1]):
            return None
        try:
            told = type(self).learn(self.names, self.points[:-1], self.profiles[:-1])
        except ProfileError:
            return None
        return self.pairs[-2].of(told._sizes(self.points[-1])) - self.profiles[-1].size

    def at(self, **values: int) -> Profile:
        """The profile that would be recorded there.

        Its requests are those of the largest recorded profile, also those that smaller ones lack.
        What was not fitted exactly is `varying`, so that its slot also serves what turns out to be
        smaller, and so is what depends on a parameter and is gone at the next request, or on CUDA
        at the second of its operator, as workspaces are. Where recorded lifetimes differ, the
        longest counts.

        Args:
            **values: one for each parameter, such as `batch=64`.

        Raises:
            OptionError: when a parameter is missing, unknown, or not a whole number above 0.
            ProfileError: when a size is nothing or too much there.

        Example:
            >>> guess.at(batch=64).save("large.pgmoprof")  # doctest: +SKIP
        """
        point = self._point(values)
        last = self.profiles[-1]
        size = self._sizes(point)
        if np.any(size < 1):
            at = int(np.argmax(size < 1))
            recorded = ", ".join(_called(self.names, one) for one in self.points)
            raise ProfileError(
                f"request {at} would have {size[at]} bytes at {_called(self.names, point)}: it "
                f"shrinks over {recorded}; record closer to it"
            )
        recorded = "; ".join(_called(self.names, one) for one in self.points)
        told = f"to {_called(self.names, point)} from {recorded}"
        end = self._ends()
        varying = self._anywhere("varying") | (self.kinds == "upper") | self.ambiguous
        return replace(
            last,
            size=size,
            end=end,
            varying=varying | self._scratch(end),
            shared=self._anywhere("shared"),
            address=np.zeros(len(self), np.int64),
            steady=all(profile.steady for profile in self.profiles),
            meta=replace(last.meta, notes={**last.meta.notes, "extrapolated": told}),
            trace=None,
        )

    def _point(self, values: dict[str, int]) -> Point:
        if set(values) != set(self.names):
            raise OptionError(
                f"at() was given {', '.join(values) or 'nothing'}; it needs {', '.join(self.names)}"
            )
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise OptionError(f"{name}={value!r} must be a whole number above 0")
        return tuple(int(values[name]) for name in self.names)

    def _sizes(self, point: Point) -> NDArray[np.int64]:
        sizes = [max(law.at(point) for law in laws) for laws in self.laws]
        rounded = [-(-size // self.unit) * self.unit for size in sizes]
        # Too large for a profile in any case, but not to be wrapped around on the way there.
        return np.array([min(size, 2**62) for size in rounded], np.int64)[self.row]

    def _ends(self) -> NDArray[np.int64]:
        """The longest of the recorded lifetimes, by the clock of the largest profile."""
        last = self.profiles[-1]
        ends = [last.end]
        for profile, pairs in zip(self.profiles[:-1], self.pairs[:-1], strict=True):
            ends.append(pairs.ends(profile))
        never = _any([end == NEVER for end in ends])
        longest = np.minimum(np.max(ends, axis=0), last.start + 2 * last.ticks)
        return np.where(never, NEVER, longest if last.circular else np.minimum(longest, last.ticks))

    def _anywhere(self, column: str) -> NDArray[np.bool_]:
        """Whether one of the profiles says so of the request."""
        return _any(
            [
                pairs.of(getattr(profile, column))
                for profile, pairs in zip(self.profiles, self.pairs, strict=True)
            ]
        )

    def _scratch(self, end: NDArray[np.int64]) -> NDArray[np.bool_]:
        """What a kernel works in, and may want less of, is gone as soon as it has been launched."""
        last = self.profiles[-1]
        life = np.where(end == NEVER, 0, end - last.start)
        brief = life == 1
        if last.meta.device.startswith("cuda"):
            together = last.tag == np.append(last.tag[1:], -1)  # with the next one's operator
            brief |= (life == _SEMAPHORES) & together
        return np.asarray((self.kinds != "constant") & brief, np.bool_)


def _any(columns: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    return np.asarray(np.any(np.stack(columns), axis=0), np.bool_)


def _called(names: Sequence[str], point: Point) -> str:
    return ", ".join(f"{name}={value}" for name, value in zip(names, point, strict=True))


def _unit(profile: Profile, sizes: NDArray[np.int64]) -> int:
    """What recorded sizes are rounded to: some logs have what was taken, not what was asked for."""
    rounded = profile.meta.device.startswith("cuda") and not np.any(sizes % CUDA_ALIGNMENT)
    return CUDA_ALIGNMENT if rounded else 1


_KINDS = ("constant", "affine", "quadratic", "upper")
