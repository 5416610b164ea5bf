"""The small pictures: what is drawn where, and how much of it."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import pgmo
from pgmo.profiler.tag import Tag
from pgmo.report.page.drawing import HEIGHT, MOST_BLOCKS, WIDTH, load_picture, plan_picture

SVG = "{http://www.w3.org/2000/svg}"
RECTANGLE = re.compile(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)")


def rectangles(svg: str) -> list[tuple[float, ...]]:
    return [tuple(float(part) for part in found) for found in RECTANGLE.findall(svg)]


def test_a_block_is_drawn_at_its_place() -> None:
    profile = pgmo.Profile.from_columns(size=[64, 64], start=[0, 1], end=[2, 2], ticks=2)
    svg, counts, drawn = plan_picture(pgmo.plan(profile))
    assert sorted(rectangles(svg)) == [
        (0, HEIGHT / 2, WIDTH, HEIGHT / 2),
        (WIDTH / 2, 0, WIDTH / 2, HEIGHT / 2),
    ]
    assert counts == {"freed in the same iteration": 2}
    assert drawn == 2


def test_what_wraps_is_drawn_in_two_parts() -> None:
    profile = pgmo.Profile.from_columns(size=[64], start=[3], end=[5], ticks=4)
    svg, counts, _ = plan_picture(pgmo.plan(profile))
    assert sorted(rectangles(svg)) == [
        (0, 0, WIDTH / 4, HEIGHT),
        (WIDTH * 3 / 4, 0, WIDTH / 4, HEIGHT),
    ]
    assert counts == {"freed in the next one": 1}


def test_both_slots_of_a_doubly_live_block_are_drawn() -> None:
    profile = pgmo.Profile.from_columns(size=[64], start=[0], end=[3], ticks=2)
    svg, counts, _ = plan_picture(pgmo.plan(profile))
    assert sorted(y for _, y, _, _ in rectangles(svg)) == [0, HEIGHT / 2]
    assert counts == {"two slots, used in turn": 1}


def test_only_the_largest_blocks_of_a_large_plan_are_drawn() -> None:
    count = 3 * MOST_BLOCKS
    ticks = np.arange(count)
    profile = pgmo.Profile.from_columns(
        size=np.where(ticks < 10, 2**20, 64), start=ticks, end=ticks + 1, ticks=count
    )
    svg, counts, drawn = plan_picture(pgmo.plan(profile, effort="fast"))
    assert drawn == MOST_BLOCKS == len(rectangles(svg))
    assert sum(height == HEIGHT for *_, height in rectangles(svg)) == 10
    assert counts == {"freed in the same iteration": count}


def test_phases_are_stacked_and_add_up_to_the_peak() -> None:
    profile = pgmo.Profile.from_columns(
        size=[100, 50, 25],
        start=[0, 1, 2],
        end=[3, 3, 3],
        ticks=3,
        tag=[0, 1, -1],
        tags=(Tag("", "", "forward"), Tag("", "", "backward")),
    )
    svg, held = load_picture(profile)
    assert held == {"forward": 100, "backward": 50, "other": 25}
    assert sum(held.values()) == profile.max_load()
    areas = [path for path in ElementTree.fromstring(svg).iter(f"{SVG}path") if path.get("fill")]
    tops = [min(float(y) for y in re.findall(r"V([\d.]+)", path.get("d", ""))) for path in areas]
    assert tops[:3] == [
        0,
        pytest.approx(HEIGHT / 7, abs=0.1),
        pytest.approx(HEIGHT * 3 / 7, abs=0.1),
    ]


def test_a_peak_of_one_tick_among_many_is_not_lost() -> None:
    ticks = np.arange(50_000)
    profile = pgmo.Profile.from_columns(
        size=np.where(ticks == 31_234, 2**30, 1), start=ticks, end=ticks + 1, ticks=50_000
    )
    svg, held = load_picture(profile)
    assert held == {"other": 2**30}
    assert "V0.0H" in svg


@pytest.mark.parametrize(
    "profile",
    [
        pgmo.Profile.from_columns(size=[], start=[], end=[], ticks=0),
        pgmo.Profile.from_columns(size=[64], start=[0], end=[-1], ticks=1),
    ],
)
def test_nothing_to_draw_is_still_a_picture(profile: pgmo.Profile) -> None:
    load, held = load_picture(profile)
    blocks, counts, drawn = plan_picture(pgmo.plan(profile))
    assert (held, counts, drawn) == ({}, {}, 0)
    for svg in (load, blocks):
        picture = ElementTree.fromstring(svg)
        assert [path.get("fill") for path in picture.iter(f"{SVG}path")] == ["none"]  # the axes
        texts = [text.text for text in picture.iter(f"{SVG}text")]
        assert texts == ["0 B", "0", "request 0", str(profile.ticks)]
