"""Fill the tables of the documents from the raw rounds in benchmarks/results/.

    .venv-trainer/bin/python -m benchmarks documents

A table stands between `<!-- NAME -->` and `<!-- end -->`. NAME.json is what
`python -m benchmarks NAME --json benchmarks/results/NAME.json`, or `python -m
benchmarks.NAME` with the same option, wrote; the table `summary` is made of several.
"""

import argparse
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.data import memory, prepare, resume, slow_storage
from benchmarks.faults import chaos
from benchmarks.measure import columns, ratio, spread

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")
RESULTS = ROOT / "benchmarks" / "results"
RENDER: dict[str, Callable[[Mapping[str, Any]], str]] = {
    **tables.RENDER,
    "prepare": lambda data: prepare.show(
        tables.read(data["samples"]),
        {name: [_counts(each) for each in found] for name, found in data["seconds"].items()},
        _counts(data["peaks_mb"]),
    ),
    "slow_storage": lambda data: slow_storage.table(
        {int(delay): found for delay, found in data["rounds"].items()}
    ),
    "resume": lambda data: resume.table(data["rounds"]),
    "input_memory": lambda data: memory.table(
        {int(images): found for images, found in data["rounds"].items()}
    ),
    "chaos": chaos.show,
}
"""From raw rounds to tables, by name."""
TABLE = re.compile(r"<!-- (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def filled(text: str) -> str:
    """A document with every table made again."""

    def table(found: re.Match[str]) -> str:
        name = found[1]
        made = summary() if name == "summary" else RENDER[name](result(name))
        return f"<!-- {name} -->\n{made}\n<!-- end -->"

    return TABLE.sub(table, text)


def result(name: str) -> dict[str, Any]:
    """What a benchmark measured."""
    data: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return data


def _counts(found: Mapping[str, float]) -> dict[int, float]:
    """Values by number of images, which JSON keeps as text."""
    return {int(count): value for count, value in found.items()}


def summary() -> str:
    """One line for each question."""
    one, two = (tables.read(result("loop")["worlds"][ranks]) for ranks in ("1", "2"))
    exchanged = tables.read(result("exchange")["samples"])
    read = tables.read(result("input")["samples"])
    prepared = tables.read(result("prepare")["samples"])
    ours = tables.OURS

    rows = [
        ["what", "beside", "1 rank", "2 ranks"],
        [
            "CPU time of a step of the loop, on a network so small that little else is left",
            "one `tf.function` call a step",
            ratio(one, ours, tables.CALLS).text(),
            ratio(two, ours, tables.CALLS).text(),
        ],
        [
            "the same",
            "a loop in the graph without any bookkeeping",
            ratio(one, ours, tables.BARE_LOOP).text(),
            ratio(two, ours, tables.BARE_LOOP).text(),
        ],
        [
            "CPU time of an exchange of ResNet50's gradients",
            "one bare grouped all-reduce",
            "",
            ratio(exchanged, "ours, 1 group", tables.BARE).text(),
        ],
        [
            "images/s of two ranks, ResNet50, 224 pixels, 16 a rank",
            "two independent trainings on the same two cores",
            "",
            _scaling("224"),
        ],
        [
            "CPU time of an image from shard to batch, 224 pixels",
            "decoding and resizing alone",
            ratio(read, tables.PIPELINE, tables.FLOOR).text(),
            "",
        ],
        [
            "the same",
            "a textbook pipeline: decode all, resize, crop, float32",
            ratio(read, tables.PIPELINE, tables.TEXTBOOK).text(),
            "",
        ],
        [
            "CPU time of an image from file to shard, all processes",
            "the usual converter, which decodes it",
            ratio(prepared, prepare.OURS, prepare.USUAL).text(),
            "",
        ],
    ]
    return columns(rows)


def _scaling(size: str) -> str:
    rounds = result("train")["rounds"][size]
    name = tables.together(tables.SHIPPED_CYCLE_MS)
    return spread([rates[name] / rates[tables.APART] for rates in rounds]).text()


def main() -> None:
    """Write the documents again."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None).parse_args()
    for document in DOCUMENTS:
        document.write_text(filled(document.read_text()))


if __name__ == "__main__":
    main()
