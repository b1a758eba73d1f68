"""The parts of a page about predictions: which classes are confused, and the worst mistakes."""

from math import sqrt

from common.page.markup import ABSENT, text
from common.text import plural
from trainer.report.markup import embedded, percent, table
from trainer.report.outcome import Mistake, Outcome

MATRIX_CLASSES = 30
"""Most classes that are shown as a matrix; of more, the commonest confusions are listed."""
PAIRS = 20
WEAKEST = 10
LONG_NAME = 4
"""Characters above which the columns' heads are written downwards."""
SMALL = 64
"""Pixels below which an image is enlarged without smoothing."""
_PNG_WIDTH = slice(16, 20)


def confusion(outcome: Outcome | str) -> str:
    """The confusion matrix, or of many classes what stands out of it."""
    if isinstance(outcome, str):
        return f"<p>{text(outcome)}</p>\n"
    when = f'<p class="hint">{plural(outcome.examples, "held-out image")} after step'
    head = f"{when} {outcome.step:,}; {outcome.wrong:,} wrong.</p>\n"
    many = len(outcome.classes) > MATRIX_CLASSES
    return head + (_highlights(outcome) if many else _matrix(outcome))


def grid(outcome: Outcome | str) -> str:
    """The most confident mistakes with their images."""
    if isinstance(outcome, str):
        return f"<p>{text(outcome)}</p>\n"
    if not outcome.mistakes:
        return f"<p>None: all of {plural(outcome.examples, 'held-out image')} are right.</p>\n"
    shown = len(outcome.mistakes)
    which = f"all {shown}" if shown == outcome.wrong else f"the {shown} of {outcome.wrong:,}"
    if outcome.wrong == 1:
        which = "the only one"
    problem = f" Images are missing: {text(outcome.problem)}." if outcome.problem else ""
    hint = (
        f'<p class="hint">Mistakes that the network was surest of, {which}: what it took the image'
        f" for, and what it is, each with its probability.{problem}</p>\n"
    )
    cards = "".join(_card(mistake, outcome) for mistake in outcome.mistakes)
    return f'{hint}<div class="mistakes">\n{cards}</div>\n'


def _matrix(outcome: Outcome) -> str:
    classes = outcome.classes
    rows = []
    for label in classes:
        total = outcome.totals.get(label, 0)
        cells = [_cell(outcome, label, predicted, total) for predicted in classes]
        right = percent(outcome.accuracy(label)) if total else ABSENT
        rows.append([text(outcome.name(label)), *cells, f'<td class="total">{right}</td>'])
    names = [outcome.name(number) for number in classes]
    long = " long" if any(len(name) > LONG_NAME for name in names) else ""
    hint = (
        '<p class="hint">Rows are the true classes, columns what was predicted: blue is right,'
        " orange wrong, and the stronger the colour, the larger its part of the row.</p>\n"
    )
    heads = ["", *(f"<span>{text(name)}</span>" for name in names), "right"]
    return hint + table("Confusion matrix, in images", heads, rows, f"confusion{long}")


def _cell(outcome: Outcome, label: int, predicted: int, total: int) -> str:
    count = outcome.counts.get((label, predicted), 0)
    if not count:
        return '<td class="none">0</td>'
    part = count / total
    # A single mistake among hundreds must still be seen.
    share = part if label == predicted else max(0.4, sqrt(part))
    kind = "hit" if label == predicted else "miss"
    return f'<td class="{kind}" style="--share: {share:.3f}">{count:,}</td>'


def _highlights(outcome: Outcome) -> str:
    pairs = [
        [text(outcome.name(label)), text(outcome.name(predicted)), f"{count:,}"]
        for label, predicted, count in outcome.most_confused(PAIRS)
    ]
    weakest = [
        [
            text(outcome.name(label)),
            percent(outcome.accuracy(label)),
            f"{outcome.totals[label]:,}",
        ]
        for label in outcome.weakest(WEAKEST)
    ]
    heads = ["true class", "taken for", "images"]
    return table(f"The {len(pairs)} commonest confusions", heads, pairs) + table(
        f"The {len(weakest)} classes that were right least often",
        ["class", "right", "images"],
        weakest,
    )


def _card(mistake: Mistake, outcome: Outcome) -> str:
    label, predicted = text(outcome.name(mistake.label)), text(outcome.name(mistake.predicted))
    if mistake.image is None:
        image = f'<div class="absent">held-out image {mistake.index:,} was not kept</div>'
    else:
        source = embedded(mistake.image, mistake.media_type)
        kind = ' class="small"' if _is_small(mistake) else ""
        image = (
            f'<img{kind} src="{source}" loading="lazy"'
            f' alt="Held-out image {mistake.index}: {label}, taken for {predicted}">'
        )
    return (
        f'<figure class="mistake">{image}\n<figcaption><dl>'
        f"<dt><span>taken for</span> {predicted}</dt><dd>{mistake.probability:.1%}</dd>"
        f"<dt><span>is</span> {label}</dt><dd>{mistake.probability_of_label:.1%}</dd>"
        "</dl></figcaption></figure>\n"
    )


def _is_small(mistake: Mistake) -> bool:
    if mistake.media_type != "image/png":
        return False
    return 0 < int.from_bytes((mistake.image or b"")[_PNG_WIDTH]) <= SMALL
