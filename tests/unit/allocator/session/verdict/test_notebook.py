"""Summaries and sessions in notebooks: as text, escaped."""

from html.parser import HTMLParser

from pgmo.allocator.session.verdict.summary import Summary
from pgmo.allocator.session.verdict.verdict import Verdict
from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run

EVIL = "<script>alert(1)</script>&\"'"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.seen, self.text = set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)

    def handle_data(self, data):
        self.text += data


def test_everything_is_escaped():
    verdict = Verdict(EVIL, EVIL, EVIL, (EVIL,), taken=76, plain=99, since=5)
    summary = Summary(20, 4, 16, requests=3, solver=EVIL, plans=1, notes=(EVIL,), verdict=verdict)
    shown = Tags(summary._repr_html_())
    assert shown.seen == {"pre"}
    assert shown.text == str(summary)


def test_a_session_shows_its_phase_and_its_verdict(adapter):
    loop = Loop(adapter, LAYERS)
    session = open_session(adapter)
    assert "not opened" in session._repr_html_()
    with session:
        run(loop, session, 8)
        assert "(replay)" in Tags(session._repr_html_()).text
    text = Tags(session._repr_html_()).text
    assert text == f"pgmo session (closed)\n{session.summary()}"
    loop.finish()
