"""HTML pages of answers and of tables for two options."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

from pgmo.cards import Card
from pgmo.fit.answer import NAMES, Answer
from pgmo.fit.laws.need import CATEGORIES
from pgmo.fit.page.tables import alternatives, cards, holders, table
from pgmo.fit.rows import batch_rows
from pgmo.fit.two_values import BatchTable
from pgmo.rehearsal.environment import WAYS
from pgmo.units import format_bytes


def page(answer: Answer) -> str:
    """Return the page of an answer as HTML."""
    kind = "good" if answer.is_fit else "bad"
    at = "" if answer.value is None else f", at {answer.value}"
    parts = [
        f"<h1>Will {escape(answer.name)} fit on {escape(answer.card.name)}?</h1>",
        f'<p class="verdict {kind}">{escape(answer.sentence)}</p>',
        _figures(answer),
        _section(f"Memory of the card{at}", _bars(answer)),
        _section("What is alive at the peak", _categories(answer)),
        _section("What holds memory at an iteration's peak", holders(answer)),
        _section("What else would help", alternatives(answer)),
        _section("Other cards", cards(answer)),
        _section("How this was measured", _how(answer)),
    ]
    return _document(f"{answer.name} on {answer.card.name}", parts)


def table_page(name: str, card: Card, found: BatchTable) -> str:
    """Return the page of a table for two options as HTML."""
    first, second = found.options
    question = f"Which {first} of {name} fits on {card.name}?"
    rows = batch_rows(found)
    parts = [
        f"<h1>{escape(question)}</h1>",
        table((second, f"largest {first}", "shown by"), rows, numbers=(0, 1)),
        f'<p class="quiet">With pgmo, from {found.rehearsals} rehearsals.</p>',
    ]
    return _document(question, parts)


def _document(title: str, parts: Iterable[str]) -> str:
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
        f"<title>{escape(title)}</title><style>{style}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>\n{body}</section>" if body else ""


def _figures(answer: Answer) -> str:
    total = answer.need.total("pgmo")
    spare = answer.spare
    rows = [
        ("Takes with pgmo", format_bytes(total), f"of {format_bytes(answer.card.usable)}"),
        (
            "Left" if spare >= 0 else "More than the card",
            format_bytes(abs(spare)),
            f"{abs(spare) / answer.card.usable:.0%} of the card",
        ),
    ]
    plain = answer.need.total("default")
    more = f"{format_bytes(abs(plain - total))} {'more' if plain >= total else 'less'}"
    rows.append(("Takes without pgmo", format_bytes(plain), more))
    if answer.largest:
        rows.append((f"Largest {answer.option}", str(answer.batch), "with pgmo"))
    if answer.accumulation is not None:
        micro, steps = answer.accumulation
        note = "micro-batches x samples"
        rows.append((f"{answer.effective} per step", f"{steps} x {micro}", note))
    if answer.forecast is not None:
        kind = "from a measured step" if answer.forecast.measured else "by the card's peak rates"
        rows.append(("Time", answer.forecast.words, kind))
    return (
        '<dl class="figures">'
        + "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
            for name, value, note in rows
        )
        + "</dl>"
    )


def _bars(answer: Answer) -> str:
    """Return a bar for each allocator, with a line for the card's memory."""
    totals = {way: answer.need.total(way) for way in WAYS}
    most = max(answer.card.usable, *totals.values()) * 1.04
    limit = answer.card.usable / most
    rows = []
    for way in WAYS:
        share = totals[way] / most
        fits = "" if answer.fits[way] else ", does not fit"
        rows.append(
            f'<div class="bar"><span>{escape(NAMES[way] + fits)}</span>'
            f'<span class="track"><span class="fill" style="width:{share:.2%};'
            f'background:var(--{way})"></span>'
            f'<span class="limit" style="left:{limit:.2%}"></span></span>'
            f'<span class="size">{format_bytes(totals[way])}</span></div>'
        )
    note = (
        "The line is the memory of the card that programs can use: "
        f"{format_bytes(answer.card.usable)}."
    )
    if answer.card.usable_source:
        note += f" ({answer.card.usable_source})"
    return f'<div class="panel">{"".join(rows)}</div><p class="quiet">{escape(note)}</p>'


def _categories(answer: Answer) -> str:
    sizes = {**answer.need.categories, "context": answer.need.context}
    whole = max(1, sum(sizes.values()))
    stack = "".join(
        f'<span style="width:{size / whole:.2%};background:var(--{name})" '
        f'title="{escape(CATEGORIES[name])}"></span>'
        for name, size in sizes.items()
        if size
    )
    items = "".join(
        f'<li><i style="background:var(--{name})"></i>{escape(CATEGORIES[name])}'
        f"<b>{format_bytes(size)}</b></li>"
        for name, size in sizes.items()
    )
    return (
        f'<div class="panel"><div class="stack">{stack}</div><ul class="legend">{items}</ul></div>'
    )


def _how(answer: Answer) -> str:
    times = "once" if answer.rehearsals == 1 else f"{answer.rehearsals} times"
    sentences = (
        f"The job was run {times} for a few iterations, without a GPU, on PyTorch's CUDA build, in "
        f"{answer.seconds:.0f} s. Kernels computed nothing, so behaviour that depends on computed "
        "values may differ in a real run."
    )
    uncertain = answer.need.uncertainty
    if uncertain:
        sentences += (
            f" {uncertain:.1%} of the bytes are in requests whose sizes follow no line or "
            "parabola: these sizes are estimates."
        )
    proved = ", ".join(NAMES[way] for way in answer.proved)
    if proved:
        sentences += f" Rehearsed at this card's size: {proved}."
    notes = "".join(f"<li>{escape(note)}</li>" for note in answer.need.notes)
    return f"<p>{escape(sentences)}</p>" + (f'<ol class="notes">{notes}</ol>' if notes else "")
