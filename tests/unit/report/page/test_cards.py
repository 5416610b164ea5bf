from dataclasses import replace

from pgmo.packing.planner import plan
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.profile import NEVER, Profile, ProfileMeta
from pgmo.profiler.trace import Event, MarkedBy, Trace
from pgmo.report.page.cards import cards
from pgmo.report.summary import explain
from pgmo.units import format_bytes

MIB = 2**20


def cards_of(profile: Profile) -> dict[str, object]:
    made = plan(profile)
    return {card.title: card for card in cards(profile, made, explain(profile, made))}


def profile_with(**changes) -> Profile:
    columns = {"size": [30 * MIB] * 2, "start": [0, 1], "end": [1, 2], "ticks": 2, **changes}
    return Profile.from_columns(**columns)


def test_the_saving_is_what_the_arena_and_what_stays_leave_of_the_reserved():
    # The kept 5 MiB take a part of the first 30 MiB, so that the last block does not fit.
    profile = profile_with(
        size=[30 * MIB, 5 * MIB, 30 * MIB],
        start=[0, 1, 2],
        end=[1, NEVER, 3],
        ticks=3,
        circular=False,
    )
    found = cards_of(profile)
    reserved = explain(profile).reserved["default"].peak
    assert found["PyTorch would reserve"].value == format_bytes(reserved)
    assert found["Arena"].value == "30.0 MiB"
    assert found["A plan saves"].value == format_bytes(reserved - 35 * MIB)
    assert found["Persistent"].note == "in 1 block never freed"


def test_reserved_memory_names_a_gpu_for_a_program_on_the_cpu():
    on_cpu = cards_of(profile_with(meta=ProfileMeta(device="cpu")))
    on_gpu = cards_of(profile_with(meta=ProfileMeta(device="cuda:0")))
    assert on_cpu["PyTorch would reserve"].note.startswith("of a GPU")
    assert "GPU" not in on_gpu["PyTorch would reserve"].note


def test_a_leak_is_shown_and_none_is_not():
    assert "Leaks" not in cards_of(profile_with())
    leak = cards_of(profile_with(end=[1, NEVER]))["Leaks"]
    assert leak.bad
    assert leak.value == "30.0 MiB per iteration"


def test_blocks_on_several_streams_are_no_saving():
    # Blocks on several streams get no slot, so their bytes add to the arena.
    profile = profile_with(size=[30 * MIB, 5 * MIB], shared=[False, True])
    reserved = explain(profile).reserved["default"].peak
    found = cards_of(profile)
    saved = reserved - 35 * MIB
    title = "A plan saves" if saved >= 0 else "A plan takes more"
    assert found[title].value == format_bytes(abs(saved))


def test_recorded_reserved_memory_stands_beside_the_prediction():
    kind = [Event.SEGMENT_ALLOC, Event.ALLOC, Event.FREE_COMPLETED]
    trace = Trace.from_columns(kind=kind, address=[MIB] * 3, size=[20 * MIB, 3 * MIB, 3 * MIB])
    found = cards_of(profile_of(trace))
    assert found["PyTorch would reserve"].note.endswith("; 20.0 MiB as recorded")
    assert "as recorded" not in found["with expandable segments"].note


def test_a_leak_of_guessed_iterations_is_no_alarm():
    rows = [
        row for n in range(8) for row in ((Event.MARK, 0, 0), (Event.ALLOC, 512 * (n + 1), 512))
    ]
    kind, address, size = zip(*rows, strict=True)
    marked = Trace.from_columns(kind=kind, address=address, size=size)
    guessed = replace(marked, marked_by=MarkedBy.PERIOD)
    found = [cards_of(profile_with(trace=trace))["Leaks"] for trace in (marked, guessed)]
    assert [card.bad for card in found] == [True, False]
    assert "if the period is an iteration" in found[1].note


def test_the_arena_and_what_comes_on_top_add_up_before_the_reader():
    profile = profile_with(
        size=[30 * MIB, 5 * MIB, 7 * MIB, 30 * MIB],
        start=[0, 1, 2, 3],
        end=[1, NEVER, 4, 4],
        shared=[False, False, True, False],
        ticks=4,
        circular=False,
    )
    found = cards_of(profile)
    order = ["Arena", "Persistent", "Shared", "A plan needs", "PyTorch would reserve"]
    assert list(found)[1:6] == order
    values = [found[title].value for title in order[:4]]
    assert values == ["30.0 MiB", "+ 5.00 MiB", "+ 7.00 MiB", "= 42.0 MiB"]
    assert found["A plan needs"].note == "arena + persistent + shared"
