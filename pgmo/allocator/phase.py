"""Phases of a program that shares a card: rollout, scoring and training in reinforcement learning.

    phase("rollout", asleep=[optimizer, reference])     optimizer, reference asleep
    phase("scoring", asleep=[optimizer], drop=[cache])  optimizer stays asleep, cache is dropped
    phase("training", asleep=[reference], drop=[cache]) reference falls asleep, optimizer wakes

A phase first frees the memory of the objects that it lists. Then it wakes the sleeping objects that
it does not list. The end of the outermost phase wakes nothing, because the next phase may list the
sleeping objects, too.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.adapters.find import adapter_of, cuda_adapter
from pgmo.allocator.adapters.torch_cuda import has_pages_always
from pgmo.allocator.session.open_sessions import OpenSession, any_open, find_open
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.threads.boundary import exclusive, uninterrupted
from pgmo.allocator.session.threads.call_turns import CallTurns
from pgmo.allocator.sleeping.sleeping import Released, Sleep, Sleeping, State
from pgmo.allocator.sleeping.storages import listed
from pgmo.errors import PgmoError, SessionError
from pgmo.units import format_bytes
from pgmo.user_warnings import warn_user


@contextmanager
def phase(
    name: str, *, asleep: object = None, drop: object = None, device: object = None
) -> Iterator[Released]:
    """Run a phase of a program without the memory of objects that it does not use.

    If pgmo serves the program, all idle memory goes back to the card at the beginning and the end
    of the phase: pages, including pages of arenas, and PyTorch's cached segments. During the phase,
    an inference engine or another process may use this memory.

    Listed objects keep their addresses, and must not be used while they sleep. An object stays
    asleep until a phase begins that does not list it, so consecutive phases copy nothing twice. At
    the end of an inner phase, the lists of the outer phase apply again. If a phase fails,
    sleeping objects wake, the latest first, until one does not fit on the card.

    A phase without a marked iteration counts as an iteration of the open session, unless the
    session is paused, counts calls or shares the device. Without a session, objects sleep only if
    `pgmo run` or `pgmo.torch_allocator()` serves the program.

    Args:
        name: name of the phase, for messages.
        asleep: optimizers, modules or tensors that the phase does not use. Their contents go to
            host memory.
        drop: optimizers, modules or tensors whose contents the program does not need again, such
            as a KV cache. After they wake, their contents are undefined.
        device: as for `pgmo.optimize`.

    Yields:
        The numbers of bytes that this phase gave back to the card, that it copied to the host, and
        that could not sleep. Objects that slept before the phase do not count.

    Raises:
        OptionError: if `asleep` or `drop` contains other objects, or `device` is no valid name.
        AdapterError: if the device does not exist.
        SessionError: if the card has too little memory to wake an object, which stays asleep; or if
            the phase begins inside `session.iteration()` or during graph capture.

    Example:
        >>> with pgmo.phase("rollout", asleep=[optimizer, reference]):  # doctest: +SKIP
        ...     answers = policy.generate(prompts)
        >>> with pgmo.phase("training", asleep=[reference], drop=[cache]):  # doctest: +SKIP
        ...     train(answers)
    """
    lists = phase_lists(name, asleep, drop)
    adapter = _adapter(device)
    if adapter is None:
        if lists.groups:
            warn_user(f"pgmo: {NOT_SERVED}")
        yield Released()
        return
    with phase_on(adapter, lists) as released:
        yield released


NOT_SERVED = (
    "nothing sleeps in pgmo.phase(): no session is open, and pgmo does not serve the program; "
    "start the program with `pgmo run`, or call torch.cuda.memory.change_current_allocator("
    "pgmo.torch_allocator()) before the first tensor"
)

_LARGE = 64 << 20
"""Maximum bytes of listed objects that may stay on the card without a warning, because other blocks
may share their pages. More bytes cause a warning if the phase freed fewer bytes than stay."""


@dataclass(frozen=True, eq=False)
class SleepGroup:
    """Objects that sleep and wake together: one module or optimizer, or all tensors of a list."""

    objects: tuple[Any, ...]
    state: State


@dataclass(frozen=True, eq=False)
class PhaseLists:
    """Name of a phase, and the objects that sleep in it."""

    name: str
    groups: list[SleepGroup]


def phase_lists(name: str, asleep: object, drop: object) -> PhaseLists:
    """Return the lists of a phase; see `phase`."""
    return PhaseLists(name, _groups(asleep, "host") + _groups(drop, "drop"))


def _groups(objects: object, state: State) -> list[SleepGroup]:
    if objects is None:
        return []
    import torch

    found = listed(objects)
    tensors = tuple(one for one in found if isinstance(one, torch.Tensor))
    groups = [SleepGroup((one,), state) for one in found if not isinstance(one, torch.Tensor)]
    return groups + ([SleepGroup(tensors, state)] if tensors else [])


@dataclass
class _DevicePhases:
    """Running phases of one device, and the sleeps that they have begun.

    `without_session` puts objects to sleep while no session is open; None before it is needed.
    """

    running: list[PhaseLists] = field(default_factory=list)
    sleeps: list[Sleep] = field(default_factory=list)
    without_session: Sleeping | None = None

    def enter(self, sleeping: Sleeping, lists: PhaseLists) -> Released:
        """Put listed objects to sleep, free idle memory, and wake sleeping objects not listed."""
        # `session.resume()` or the end of a session may have woken some objects.
        self.sleeps = [one for one in self.sleeps if one in one.owner.sleeps]
        before = sleeping.held
        named = {id(one) for group in lists.groups for one in group.objects}
        waking = [one for one in self.sleeps if not _stays(one, named)]
        again = named.intersection(id(one) for sleep in waking for one in sleep.living)
        host, awake = self._put_to_sleep(sleeping, lists, again)
        sleeping.give_back(blocks=False)
        card = max(0, before - sleeping.held)
        if awake > max(card, _LARGE):
            warn_user(
                f"pgmo: {format_bytes(awake)} that were to sleep in the phase {lists.name!r} stay "
                "on the card. If they were allocated before pgmo served the program, start it with "
                "`pgmo run`. Memory that shares a page with other blocks cannot sleep"
            )
        self.wake(lists.name, waking)
        if again:  # just woken: they slept together with objects that are not listed
            self._put_to_sleep(sleeping, lists, set())
            sleeping.give_back(blocks=False)
        return Released(card, host, awake)

    def _put_to_sleep(
        self, sleeping: Sleeping, lists: PhaseLists, without: set[int]
    ) -> tuple[int, int]:
        """Put listed objects to sleep, except objects that sleep or have an `id` in `without`.

        Returns:
            Bytes kept on the host, and bytes that could not sleep.
        """
        host = awake = 0
        known = without.union(id(one) for sleep in self.sleeps for one in sleep.living)
        for group in lists.groups:
            objects = [one for one in group.objects if id(one) not in known]
            if not objects:
                continue
            sleep, slept = sleeping.put_to_sleep(objects, group.state)
            host, awake = host + slept.host, awake + slept.awake
            if sleep is not None:
                self.sleeps.append(sleep)
                known.update(map(id, objects))
        return host, awake

    def wake(self, name: str, sleeps: list[Sleep]) -> None:
        """Wake the objects of these sleeps, the latest sleep first.

        Raises:
            SessionError: if the card has too little memory. All objects not yet woken stay asleep.
        """
        for one in reversed(sleeps):
            try:
                one.owner.wake(one)
            except SessionError as error:
                raise SessionError(f"phase {name!r}: {error}") from error
            self.sleeps.remove(one)

    def sleeping(self, adapter: Adapter, opened: OpenSession | None) -> Sleeping:
        """Return the sleeps of the open session, or of the device if no session is open."""
        if opened is not None:
            return opened.sleeping
        if self.without_session is None:
            cuda = cuda_adapter(adapter)
            if cuda is not None:
                cuda.choose_pages(True, 0)
                if cuda.pages:
                    cuda.engine.use_pages(cuda.space)  # so that its statistics include pages
            self.without_session = Sleeping(adapter, warn_user)
        return self.without_session


def _stays(sleep: Sleep, named: set[int]) -> bool:
    """Return whether objects of a sleep are left, all with an `id` in `named`."""
    living = sleep.living
    return bool(living) and all(id(one) in named for one in living)


_phases: dict[str, _DevicePhases] = {}
"""Phases by device."""


def _adapter(device: object) -> Adapter | None:
    """Return the adapter of a device; None if pgmo does not serve the program."""
    chosen = Options(device=device).device
    if not any_open() and not has_pages_always():
        return None
    return adapter_of(chosen)


@contextmanager
def phase_on(adapter: Adapter, lists: PhaseLists) -> Iterator[Released]:
    """Run a phase on the device of an adapter; see `phase`."""
    opened = find_open(adapter)
    if opened is not None and opened.process != os.getpid():
        yield Released()  # the child of a fork has no pages
        return
    phases = _phases.setdefault(adapter.device, _DevicePhases())
    collector = None if opened is None else opened.lifecycle.collector
    if opened is not None:
        opened.turns.require_no_iteration("pgmo.phase()", sleeps=bool(lists.groups))
    ended = collector.iterations if collector is not None else 0
    complete = False
    try:
        with exclusive(), uninterrupted():  # Ctrl-C during the copy is raised afterwards
            phases.running.append(lists)
            if opened is not None:
                opened.lifecycle.count_each_step()  # the end of the phase may count as a step
            released = phases.enter(phases.sleeping(adapter, opened), lists)
        yield released
        if opened is not None and collector is not None and collector.iterations == ended:
            _mark_iteration(adapter, opened)
        complete = True
    finally:
        with exclusive(), uninterrupted():
            if lists in phases.running:
                phases.running.remove(lists)
            if complete:
                _leave(adapter, phases)
            else:
                with suppress(PgmoError, RuntimeError):  # the error of the phase comes first
                    phases.wake(lists.name, list(phases.sleeps))


def _mark_iteration(adapter: Adapter, opened: OpenSession) -> None:
    """End an iteration with the phase, unless the session pauses, counts calls or takes turns."""
    session, turn = opened.session(), opened.device_turn
    ends_by_itself = isinstance(opened.turns, CallTurns) or (turn is not None and turn.shared)
    paused = opened.turns.is_paused
    if session is not None and find_open(adapter) is opened and not (ends_by_itself or paused):
        session.step()


def _leave(adapter: Adapter, phases: _DevicePhases) -> None:
    """Free idle memory at the end of a phase, and apply the lists of the outer phase."""
    sleeping = phases.sleeping(adapter, find_open(adapter))
    if phases.running:
        phases.enter(sleeping, phases.running[-1])
    else:
        sleeping.give_back(blocks=False)
