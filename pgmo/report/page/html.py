"""Report of a profile: one HTML file that draws the blocks at their offsets and loads no files."""

import html
import re
from typing import TYPE_CHECKING

from pgmo.errors import ProfileError
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from pgmo.report.blocks.framework_addresses import find_placement
from pgmo.report.page.bundle import asset, script, source_hash, style
from pgmo.report.page.cards import FigureCard, cards
from pgmo.report.page.glossary import WORDS, words
from pgmo.report.page.icicle import icicles
from pgmo.report.page.payload import payload
from pgmo.report.page.sentence import sentence
from pgmo.report.page.tables import static_tables
from pgmo.report.summary import Explanation, explain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PLACE = re.compile(r"\{\{(\w+)\}\}")


def render(
    profile: Profile, plan: Plan | None = None, *, title: str = "", headline: str = ""
) -> str:
    """Return the report of a profile as the text of an HTML page.

    Args:
        profile: the profile.
        plan: plan of the profile; None for a plan of the fast packers.
        title: title of the page; by default, the model's name, or else "One iteration".
        headline: text at the top of the page. Its first line is shown, further lines open on click.
            By default, the sentences of `pgmo.report.page.sentence`.

    Raises:
        ProfileError: if the plan was made for another profile.
    """
    plan = _plan_for(profile, plan)
    explanation = explain(profile, plan, predict=len(profile) > 0)
    name = title or profile.meta.model or "One iteration"
    code, styles = script(), style()
    policy = (
        f"default-src 'none'; script-src {source_hash(code)}; style-src {source_hash(styles)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    filled = {
        "policy": policy,
        "title": html.escape(name),
        "origin": html.escape(_origin(profile)),
        "headline": _headline(headline or sentence(profile, plan, explanation)),
        "words": words(),
        "icicles": icicles(
            profile,
            "What holds memory at the peak" if explanation.moment is None else "What holds memory",
        ),
        "tables": static_tables(explanation),
        "cards": "\n".join(_card(card) for card in cards(profile, plan, explanation)),
        "style": styles,
        "script": code,
        "data": payload(
            profile,
            plan,
            placement=find_placement(profile, _addresses(profile, explanation)),
            reserved={n: one.curve for n, one in explanation.reserved.items() if one.curve.size},
        ),
    }
    # Replace in one pass, so that inserted text is never treated as a placeholder.
    return _PLACE.sub(lambda match: filled[match[1]], asset("report.html"))


def plan_of(profile: Profile, plan: Plan) -> Plan | None:
    """Return the plan for a profile: `plan` or a plan inside it; None if no plan fits."""
    for inner in (plan, *plan.inner):
        if inner.fingerprint == profile.fingerprint and len(inner) == len(profile):
            return inner
    return None


def _plan_for(profile: Profile, plan: Plan | None) -> Plan:
    if plan is None:
        from pgmo.packing import planner

        return planner.plan(profile, effort="fast")
    found = plan_of(profile, plan)
    if found is not None:
        return found
    raise ProfileError(
        f"the plan was made for another profile: it has {len(plan)} blocks in {plan.ticks} ticks, "
        f"the profile has {len(profile)} in {profile.ticks}; make it again with `pgmo plan`"
    )


def _addresses(profile: Profile, explanation: Explanation) -> "NDArray[np.int64]":
    """Return the recorded addresses. If there are none, return predicted addresses, if known."""
    default = explanation.reserved.get("default")
    if default is None or (profile.address > 0).any():
        return profile.address
    return default.address


def _origin(profile: Profile) -> str:
    meta = profile.meta
    framework = f"{meta.framework} {meta.framework_version}".strip()
    known = [framework, meta.device, meta.date[:16].replace("T", " ")]
    return " · ".join(part for part in known if part) or "origin unknown"


def _headline(text: str) -> str:
    """Return the first line as a section, in which further lines open on click; "" without text."""
    if not text:
        return ""
    sentence, _, details = text.partition("\n")
    shown = f"<p>{html.escape(sentence)}</p>"
    if details:
        shown += f"<details><summary>Details</summary><pre>{html.escape(details)}</pre></details>"
    return f'<section class="headline" aria-label="Verdict">{shown}</section>'


def _card(card: FigureCard) -> str:
    kind = " good" if card.good else " bad" if card.bad else ""
    meaning = html.escape(WORDS.get(card.title, ""), quote=True)
    return (
        f'<div class="card{kind}" title="{meaning}"><dt>{html.escape(card.title)}</dt>'
        f"<dd>{html.escape(card.value)}<small>{html.escape(card.note)}</small></dd></div>"
    )
