"""What was learned from profiles at small sizes, and what it says about larger ones."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import OptionError, ProfileError
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.size_laws import Point, SizeLaw, fit

_SEMAPHORES = 2
"""Ticks that a workspace of a reduction lives on a GPU: it asks for semaphores, too."""


@dataclass(frozen=True, eq=False, repr=False)
class Extrapolation:
    """Profiles of a program at sizes that were not recorded; made by `pgmo.extrapolate`.

    Args:
        names: of the parameters.
        points: their values in each profile, in ascending order.
        profiles: what was recorded there.
        laws: the simplest laws of each distinct combination of sizes.
        row: for each request its place in `laws`, shape (n,).
        unit: sizes are rounded up to a multiple of it, in bytes.

    Example:
        >>> from pgmo.profiler.extrapolate import extrapolate
        >>> sizes = [[64, 100], [64, 200], [64, 400]]
        >>> given = [
        ...     Profile.from_columns(size=two, start=[0, 1], end=[1, 2], ticks=2) for two in sizes
        ... ]
        >>> extrapolate(given, batch=[2, 4, 8])
        Extrapolation(2 requests over batch: 1 constant, 1 affine; batch=8 foretold exactly)
    """

    names: tuple[str, ...]
    points: tuple[Point, ...]
    profiles: tuple[Profile, ...]
    laws: tuple[tuple[SizeLaw, ...], ...]
    row: NDArray[np.intp]
    unit: int = 1

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        counted = Counter(self.kinds.tolist())
        parts = [f"{counted[kind]} {kind}" for kind in _KINDS if counted[kind]]
        if self.ambiguous.any():
            parts.append(f"{int(self.ambiguous.sum())} ambiguous")
        if not self.checked.all():
            unchecked = int(np.sum(~self.checked & (self.kinds != "upper")))
            parts += [f"{unchecked} unchecked"] if unchecked else []
        if self.held_out is not None:
            total = int(self.profiles[-1].size.sum())
            off = int(np.abs(self.held_out).sum()) / max(1, total)
            told = "exactly" if not off else f"but for {off:.2%} of its bytes"
            parts[-1] += f"; {self._name(self.points[-1])} foretold {told}"
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
    def residuals(self) -> NDArray[np.int64]:
        """Fitted less recorded size of each request in each profile, bytes, shape (profiles, n).

        All zero but for estimates from above; `held_out` shows more.
        """
        return np.stack(
            [
                self._sizes(point) - profile.size
                for point, profile in zip(self.points, self.profiles, strict=True)
            ]
        )

    @cached_property
    def held_out(self) -> NDArray[np.int64] | None:
        """What the other profiles foretell of the largest one's sizes, less what they are.

        Bytes, shape (n,): the honest measure of what is to be expected further out. None where
        these are too few.
        """
        points = self.points[:-1]
        design = np.array([(1, *point) for point in points], np.float64)
        if len(points) <= len(self.names) or np.linalg.matrix_rank(design) <= len(self.names):
            return None
        sizes = np.stack([profile.size for profile in self.profiles[:-1]], axis=1)
        distinct, row = np.unique(sizes, axis=0, return_inverse=True)
        laws = fit(points, distinct)
        told = replace(self, points=points, laws=tuple(laws), row=row.reshape(-1))
        return told._sizes(self.points[-1]) - self.profiles[-1].size

    def at(self, **values: int) -> Profile:
        """The profile that would be recorded there.

        Its requests are those of the largest recorded profile. What was not fitted exactly is
        `varying`, so that its slot also serves what turns out to be smaller, and so is what depends
        on a parameter and is gone at the next request, or on CUDA at the second of its operator, as
        workspaces are. Where recorded
        lifetimes differ, the longest counts.

        Args:
            **values: one for each parameter, such as `batch=64`.

        Raises:
            OptionError: when a parameter is missing, unknown, or not a whole number above 0.
            ProfileError: when a size is nothing or too much there.

        Example:
            >>> guess.at(batch=64).save("large.pgmoprof")  # doctest: +SKIP
        """
        if set(values) != set(self.names):
            raise OptionError(
                f"at() was given {', '.join(values) or 'nothing'}; it needs {', '.join(self.names)}"
            )
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise OptionError(f"{name}={value!r} must be a whole number above 0")
        point = tuple(int(values[name]) for name in self.names)
        last = self.profiles[-1]
        size = self._sizes(point)
        if np.any(size < 1):
            at = int(np.argmax(size < 1))
            raise ProfileError(
                f"request {at} would have {size[at]} bytes at {self._name(point)}: it shrinks "
                f"over {', '.join(self._name(one) for one in self.points)}; record closer to it"
            )
        ends = np.stack([profile.end for profile in self.profiles])
        varying = np.any([profile.varying for profile in self.profiles], axis=0)
        shared = np.any([profile.shared for profile in self.profiles], axis=0)
        # What a kernel works in, and may want less of, is gone as soon as it has been launched.
        end = np.where(np.any(ends == NEVER, axis=0), NEVER, ends.max(axis=0))
        life = np.where(end == NEVER, 0, end - last.start)
        brief = life == 1
        if last.meta.device.startswith("cuda"):
            together = last.tag == np.append(last.tag[1:], -1)  # with the next one's operator
            brief |= (life == _SEMAPHORES) & together
        scratch = (self.kinds != "constant") & brief
        recorded = "; ".join(self._name(one) for one in self.points)
        notes = {**last.meta.notes, "extrapolated": f"to {self._name(point)} from {recorded}"}
        return replace(
            last,
            size=size,
            end=end,
            varying=varying | (self.kinds == "upper") | self.ambiguous | scratch,
            shared=shared,
            address=np.zeros(len(self), np.int64),
            steady=all(profile.steady for profile in self.profiles),
            meta=replace(last.meta, notes=notes),
            trace=None,
        )

    def _sizes(self, point: Point) -> NDArray[np.int64]:
        sizes = [max(law.at(point) for law in laws) for laws in self.laws]
        rounded = [-(-size // self.unit) * self.unit for size in sizes]
        # Too large for a profile in any case, but not to be wrapped around on the way there.
        return np.array([min(size, 2**62) for size in rounded], np.int64)[self.row]

    def _name(self, point: Point) -> str:
        return ", ".join(f"{name}={value}" for name, value in zip(self.names, point, strict=True))


_KINDS = ("constant", "affine", "quadratic", "upper")
