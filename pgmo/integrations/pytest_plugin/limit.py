"""Marker `max_memory`: the limit of a test, and the message if it is exceeded."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from pgmo.allocator.one_pass import OnePass
from pgmo.errors import AdapterError, OptionError, SessionError
from pgmo.integrations.pytest_plugin.recording import base_profile, recorded
from pgmo.profiler.profile import Profile
from pgmo.report.findings.attribution import find_peak
from pgmo.report.gate.growth import find_growth
from pgmo.report.gate.tolerance import Tolerance
from pgmo.report.gate.words import grown_lines
from pgmo.units import format_bytes, parse_bytes

_TOP = 5


@dataclass(frozen=True)
class Limit:
    """Maximum live bytes (`size`) of a test on a device. None stands for the default device."""

    item: pytest.Item
    size: int
    device: object

    @classmethod
    def of(cls, marker: pytest.Mark, item: pytest.Item) -> "Limit":
        """Create the limit from a marker. An invalid marker fails the test."""
        unknown = marker.kwargs.keys() - {"device"}
        if len(marker.args) != 1 or unknown:
            pytest.fail(
                f'{item.nodeid}: write max_memory("300 MiB") or max_memory("300 MiB", '
                f'device="cpu"), not {_written(marker)}',
                pytrace=False,
            )
        try:
            size = parse_bytes(marker.args[0])
        except OptionError as error:
            pytest.fail(f"{item.nodeid}: max_memory: {error}", pytrace=False)
        return cls(item, size, marker.kwargs.get("device"))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Fail the test if it exceeds the limit or cannot be recorded. Other failures stay."""
        of_test: BaseException | None = None
        try:
            with recorded(self.item, device=self.device) as made:
                try:
                    yield
                except BaseException as error:
                    of_test = error
                    raise
        except (AdapterError, SessionError, OptionError) as error:
            if error is of_test:
                raise
            why = f"{self.item.nodeid}: max_memory: {error}"
        else:
            why = "\n".join(self._explained(made)) if made.peak > self.size else ""
        if why:
            pytest.fail(why, pytrace=False)

    def _explained(self, made: OnePass) -> Iterator[str]:
        profile = made.profile
        assert profile is not None
        yield (
            f"{self.item.nodeid} holds {format_bytes(made.peak)} at once on {made.device}, "
            f"{format_bytes(made.peak - self.size)} more than max_memory allows "
            f"({format_bytes(self.size)})."
        )
        peak = find_peak(profile, _TOP)
        for title, holders in (("module", peak.modules), ("operator", peak.operators)):
            yield f"At the peak, by {title}:"
            yield from (
                f"  {format_bytes(one.size):>9}  {one.name}, {one.blocks} block"
                f"{'s' if one.blocks > 1 else ''}"
                for one in holders
            )
        yield from self._grown(profile)

    def _grown(self, profile: Profile) -> Iterator[str]:
        before, path = base_profile(self.item)
        if before is None:
            where = f"no {path}" if path else "no folder of earlier profiles (--pgmo-base)"
            yield (
                f"There is {where}, so growth is unknown. `pytest --pgmo-save DIR` writes "
                "these profiles."
            )
            return
        load = find_growth("", before, profile, Tolerance()).figures[0]
        yield f"Before ({path}) it was {format_bytes(load.before or 0)}. Grown since then:"
        lines = list(grown_lines(load, _TOP))
        yield from (f"  {line}" for line in lines or ["nothing: the limit was exceeded before"])


def _written(marker: pytest.Mark) -> str:
    arguments = [repr(one) for one in marker.args]
    arguments += [f"{name}={value!r}" for name, value in marker.kwargs.items()]
    return f"{marker.name}({', '.join(arguments)})"
