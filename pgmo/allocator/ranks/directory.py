"""A directory of plans for all ranks of a program, and for its later runs.

`save="plans"` means this where there are several ranks, and `plan="plans"` wherever a directory is
named. A rank that comes back, or one of a job of another size, begins with the nearest plan that
there is. Whether it is near enough, its first iterations show, as with any saved plan.
"""

import glob
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgmo.allocator.plans import store
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.ranks import index
from pgmo.allocator.ranks.index import Entry
from pgmo.allocator.ranks.world import World, world
from pgmo.allocator.session.state import SessionState
from pgmo.errors import FileError
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from pgmo.version import __version__

_DIGITS = 8  # of a digest, in names of files
_OFFSETS = ("offset", "alternate", "shorter")
_LIVES = ("end", "stream", "varying", "shared")


@dataclass(frozen=True)
class Directory:
    """The plans of one program.

    Args:
        folder: where they are.
        name: of the program; "" for "pgmo".
        world: this process among its others; None for one alone.
        device: type of its device.
        framework: its name and version.
        command: digest of its command line.

    Example:
        >>> Directory(Path("plans"), "gpt", World(0, 4), "cuda", "torch 2.11.0").index.name
        'gpt.ranks.json'
    """

    folder: Path
    name: str
    world: World | None
    device: str
    framework: str
    command: str = ""

    @property
    def stem(self) -> str:
        """What the names of its files begin with."""
        return self.name or "pgmo"

    @property
    def index(self) -> Path:
        """The file that tells who has what."""
        return self.folder / f"{self.stem}{index.SUFFIX}"

    # --- finding --------------------------------------------------------------------------------

    def found(self) -> Iterator["Found"]:
        """Plans that can be read, the nearest first; each file once."""
        here = self.world or World(0, 1)
        entries = sorted(index.read(self.index), key=lambda one: self._distance(one, here))
        for entry in _once(entries):
            path = self.folder / f"{entry.file}.pgmoplan"
            with suppress(FileError):
                plan = Plan.load(path)
                profile = store.find_profile(path, plan)
                same = not any(self._distance(entry, here)[:-1])
                yield Found(path, plan, profile, self._told(entry, here), same)
        path = self.folder / f"{self.stem}.pgmoplan"
        if path.exists():
            with suppress(FileError):
                plan = Plan.load(path)
                profile = store.find_profile(path, plan)
                yield Found(path, plan, profile, "of a single process", self.world is None)

    def _distance(self, entry: Entry, here: World) -> tuple[float, ...]:
        return entry.distance(here, self.device, self.framework, __version__, self.command)

    def _told(self, entry: Entry, here: World) -> str:
        """How near an entry is, in words."""
        parts = [f"of rank {entry.rank} of {entry.world}"]
        if (entry.rank, entry.world) != (here.rank, here.size):
            parts.append(f"for rank {here.rank} of {here.size}")
        for what, saved, own in (
            ("on", entry.device, self.device),
            ("with", entry.framework, self.framework),
            ("by pgmo", entry.pgmo, __version__),
        ):
            if saved != own:
                parts.append(f"{what} {saved} where this is {own}")
        if entry.command != self.command:
            parts.append("with other arguments")
        return ", ".join(parts)

    # --- saving ---------------------------------------------------------------------------------

    def save(self, plans: Sequence[PlannedProfile], opening: PlannedProfile | None) -> list[Path]:
        """Writes plans and profiles, unless a rank with the same plans has done so.

        What this rank had before goes, once no entry leads to it.

        Args:
            plans: of the program's structures, the main one first.
            opening: of its first iteration.

        Returns:
            The files, the plan's last.

        Raises:
            FileError: when a file cannot be written.
        """
        assert self.world is not None
        first = None if opening is None else opening.plan
        stem = f"{self.stem}-{digest([one.plan for one in plans], first)}"
        path = self.folder / f"{stem}.pgmoplan"
        if not path.exists():
            store.save(list(plans), opening, self.folder, stem)
        main = plans[0].plan
        entry = Entry(
            file=stem,
            world=self.world.size,
            rank=self.world.rank,
            device=self.device,
            framework=self.framework,
            pgmo=__version__,
            command=self.command,
            requests=len(main),
            structure=_digest(main, _LIVES),
            shapes=_digest(main, ("size", *_LIVES)),
            arena=main.arena,
        )
        if not self._leads_to(index.read(self.index), entry):
            with index.locked(self.index):
                before = index.read(self.index)
                entries = [one for one in before if one.key != entry.key]
                if not self._leads_to(entries, entry):
                    entries.append(entry)
                index.write(self.index, entries)
                if not path.exists():  # somebody's last entry for it went meanwhile
                    store.save(list(plans), opening, self.folder, stem)
                self._remove({one.file for one in before} - {one.file for one in entries})
        return [*self._profiles(stem), path]

    def _profiles(self, stem: str) -> list[Path]:
        """Those of a plan's structures, and of its first iteration."""
        return sorted(self.folder.glob(f"{glob.escape(stem)}*.pgmoprof"))

    def _leads_to(self, entries: Sequence[Entry], entry: Entry) -> bool:
        """Whether this rank would find this plan first."""
        here = self.world
        assert here is not None
        own = min(entries, key=lambda one: self._distance(one, here), default=None)
        if own is None or own.file != entry.file:
            return False
        return (own.world, *own.key[2:]) == (entry.world, *entry.key[2:])

    def _remove(self, stems: set[str]) -> None:
        for stem in stems:
            if not stem.startswith(f"{self.stem}-"):
                continue
            for path in (*self._profiles(stem), self.folder / f"{stem}.pgmoplan"):
                with suppress(OSError):
                    os.unlink(path)


@dataclass(frozen=True, eq=False)
class Found:
    """A plan in a directory.

    Args:
        path: its file.
        plan: what was in it.
        profile: the profile that it was made from, where that is still there.
        told: whose it is, and in what that differs from here.
        same: whether it differs in the rank at most, so that it is likely to be this program's.
    """

    path: Path
    plan: Plan
    profile: Profile | None
    told: str
    same: bool


def directory_of(state: SessionState, folder: Path) -> Directory:
    """A directory as a session sees it."""
    adapter = state.adapter
    return Directory(
        folder=folder,
        name=state.options.model_name,
        world=world(),
        device=adapter.device.partition(":")[0],
        framework=f"{adapter.name} {adapter.version}",
        command=hashlib.sha256("\0".join(sys.argv).encode(errors="replace")).hexdigest()[:16],
    )


def digest(plans: Sequence[Plan], opening: Plan | None) -> str:
    """A short name for what plans say, whoever made them and when.

    Example:
        >>> from dataclasses import replace
        >>> from pgmo.packing.planner import plan
        >>> one = plan(Profile.from_columns(size=[64], start=[0], end=[1], ticks=1))
        >>> digest([one], None) == digest([replace(one, seconds=3.0)], None)
        True
    """
    parts = [
        _digest(one, ("size", *_LIVES, *_OFFSETS))
        for one in (*plans, *((opening,) if opening is not None else ()))
    ]
    told = f"{len(plans)} {' '.join(parts)}"
    return hashlib.sha256(told.encode()).hexdigest()[:_DIGITS]


def _digest(plan: Plan, columns: Sequence[str]) -> str:
    made = hashlib.sha256(f"{len(plan)} {plan.ticks} {plan.alignment}".encode())
    for name in columns:
        made.update(getattr(plan, name).tobytes())
    return made.hexdigest()[: 2 * _DIGITS]


def _once(entries: Sequence[Entry]) -> list[Entry]:
    """The first entry of each file."""
    seen: dict[str, Entry] = {}
    for one in entries:
        seen.setdefault(one.file, one)
    return list(seen.values())
