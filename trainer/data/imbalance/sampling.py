"""Which records of a window are shown, and how often: a pure function of the window and of the
classes of its records.

The number of records that a window shows stays the same, so every position of the order still has
one record, and a run resumes in the middle of a window as without sampling.
"""

import random
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeAlias

from trainer.data.formats.record_format import Values
from trainer.data.imbalance.effective import factors
from trainer.data.imbalance.leaf import ImbalanceOptions
from trainer.data.order import Window, shuffle_in_place
from trainer.data.source import Source

Selection: TypeAlias = Callable[[Sequence[Values], Window], Sequence[int]]
"""From all records of a window to those to show in place of its `shuffle`, as many; pure."""


def sampling(source: Source) -> Selection | None:
    """Return what chooses the records of windows, if that is asked for."""
    options = source.options.of(ImbalanceOptions) if source.options else ImbalanceOptions()
    if options.by != "sampling":
        return None
    weights = factors(source.split.class_counts, options.beta)

    def choose(records: Sequence[Values], window: Window) -> Sequence[int]:
        labels = (source.format.record(values).label - source.first_label for values in records)
        # A label that is not a class is read as any other, so that its decoder names it.
        of_records = [weights[n] if 0 <= n < len(weights) else 1.0 for n in labels]
        shown = resampled(of_records, window.key)
        return [shown[index] for index in window.shuffle]

    return choose


def resampled(weights: Sequence[float], key: str) -> list[int]:
    """Return as many indices as there are weights, each about as often as its weight says: an index
    that should occur x times does so floor(x) or ceil(x) times (systematic resampling).

    Args:
        weights: Weight of each record, in any unit.
        key: Decides which ones occur once more. `random()` is used, whose sequence Python
            guarantees.
    """
    source = random.Random(f"{key}/sampling")
    order = list(range(len(weights)))
    shuffle_in_place(order, source)
    offset = source.random()
    ends = list(accumulate(weights[index] for index in order))
    scale = len(weights) / ends[-1]
    shown: list[int] = []
    for index, end in zip(order, ends, strict=True):
        # The number of points offset, offset + 1, ... below the scaled end.
        while len(shown) < len(weights) and offset + len(shown) < end * scale:
            shown.append(index)
    # Rounding may leave out the last point.
    return shown + [order[-1]] * (len(weights) - len(shown))
