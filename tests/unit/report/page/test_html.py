import re

import pytest

from pgmo.errors import ProfileError
from pgmo.packing.planner import plan
from pgmo.report.page.html import render
from tests.unit.report.page.test_packed import unpack
from tests.unit.report.profiles import HOSTILE, small_profile


def data_of(page: str):
    return unpack(re.search(r'id="data">([^<]*)</script>', page)[1])


def test_the_page_asks_for_nothing_and_its_policy_forbids_it():
    page = render(small_profile())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r'\b(src|href)="', page)


def test_titles_and_origins_are_escaped():
    page = render(small_profile(), title="<b>&")
    assert "<h1>&lt;b&gt;&amp;</h1>" in page
    assert HOSTILE not in page
    assert HOSTILE in data_of(page)[0]["strings"]


def test_a_given_plan_is_shown():
    profile = small_profile()
    made = plan(profile, solver="best-fit-size", alignment=256)
    header, columns = data_of(render(profile, made))
    assert columns["offset"] == made.offset.tolist()
    assert header["alignment"] == 256


def test_a_plan_of_another_profile_is_refused():
    other = small_profile(size=[512] * 8)
    with pytest.raises(ProfileError, match="made for another profile"):
        render(small_profile(), plan(other))


def test_without_addresses_blocks_are_where_pytorch_would_place_them():
    header, columns = data_of(render(small_profile()))
    assert header["placesSeen"] is False
    assert min(columns["position"]) >= 0


def test_addresses_that_were_seen_come_first():
    address = [2**30 + 2**14 * i for i in range(8)]
    header, columns = data_of(render(small_profile(address=address)))
    assert header["placesSeen"] is True
    assert columns["position"] == [2**14 * i for i in range(8)]


def test_figures_are_there_without_a_script():
    page = render(small_profile())
    cards = re.search(r'<dl class="cards".*?</dl>', page, re.DOTALL)[0]
    for title in ("Max load", "Arena", "PyTorch would reserve", "Persistent"):
        assert f"<dt>{title}</dt>" in cards
