"""Summaries and sessions in notebooks: escaped, small, without colours of their own."""

import re
from html.parser import HTMLParser

from pgmo.allocator.session.joint import JointSummary
from pgmo.allocator.session.verdict.notebook import summary_html
from pgmo.allocator.session.verdict.summary import Summary
from pgmo.allocator.session.verdict.verdict import Verdict
from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run

EVIL = "<script>alert(1)</script>&\"'"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], set(), ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def evil():
    verdict = Verdict(EVIL, EVIL, EVIL, (EVIL,), taken=76, plain=99, since=5)
    return Summary(20, 4, 16, requests=3, solver=EVIL, plans=1, notes=(EVIL,), verdict=verdict)


def shown(summary, **options):
    return summary_html(str(summary), **options)


def test_everything_is_escaped():
    html = shown(evil(), title=EVIL, state=EVIL)
    assert "script" not in Tags(html).seen
    assert Tags(html).text.count(EVIL) == 7


def test_it_is_small_and_has_no_colours_of_its_own():
    html = shown(Summary(9, 4, 5, notes=("x" * 10_000,) * 1000))
    assert len(html) < 40_000
    styles = " ".join(re.findall(r'style="([^"]*)"', shown(evil())))
    assert not re.search(
        r"#[0-9a-f]{3}|rgb|color:(?!inherit|currentColor)", styles.replace("currentColor", "")
    )


def test_a_session_shows_its_phase_and_its_verdict(adapter):
    loop = Loop(adapter, LAYERS)
    session = open_session(adapter)
    assert "not opened" in session._repr_html_()
    with session:
        run(loop, session, 8)
        assert "(replay)" in Tags(session._repr_html_()).text
    text = Tags(session._repr_html_()).text
    assert "pgmo session on cpu (closed): live bytes in slots peaked at" in text
    assert str(session.summary().verdict) in text
    loop.finish()


def test_several_frameworks_are_shown_one_after_the_other():
    html = JointSummary({"torch": evil(), EVIL: Summary(0, 0, 0)})._repr_html_()
    text = Tags(html).text
    assert "pgmo, torch: " in text
    assert f"pgmo, {EVIL}: no iteration was seen" in text


def test_a_callback_says_where_it_stands():
    from pgmo.integrations.training_hook import TrainingHook

    hook = TrainingHook()
    assert Tags(hook.html(EVIL)).text == f"{EVIL}: training has not begun"
