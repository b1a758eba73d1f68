"""Fill the tables of the documents from the raw rounds in tools/benchmarks/results/.

A table stands between `<!-- NAME -->` and `<!-- end -->`. `python -m tools.benchmarks NAME --json
tools/benchmarks/results/NAME.json` writes NAME.json, and NAME-large.json is of the same benchmark
with more; the table `summary` combines several of them.
"""

import importlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.program import Command
from tools.benchmarks import input as input_
from tools.benchmarks import prepare
from tools.benchmarks.commands import BENCHMARKS
from tools.benchmarks.measure import columns, ratio, read_samples, spread, table
from tools.benchmarks.tables import DECIDED
from tools.benchmarks.training import exchange, loop, train

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tools" / "benchmarks" / "results"
DOCUMENTS = (*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*/extras/*/README.md")))
Data = Mapping[str, Any]


def _of(row: Command) -> Callable[[Data], str]:
    """Return what formats the rounds of a benchmark; its module is imported when it is used."""
    return lambda data: str(importlib.import_module(row.run.partition(":")[0]).show(data))


SHOW: Mapping[str, Callable[[Data], str]] = {
    **DECIDED,
    **{
        name: _of(row)
        for row in BENCHMARKS
        for name in (row.name, f"{row.name}-large")
        if (RESULTS / f"{name}.json").exists()
    },
    "input-default-memory": lambda data: table(
        read_samples(data["default_samples"]), "image", [input_.FLOOR, input_.PIPELINE]
    ),
    "prepare-removal": prepare.show,
}
"""Functions that format results as tables, by the name of the table."""
OF_PARTS = {"input-default-memory": "input"}
"""Files of results by the names of tables that are a part of another one's."""
TABLE = re.compile(
    rf"<!-- ({'|'.join(map(re.escape, (*SHOW, 'summary')))}) -->\n.*?<!-- end -->", re.DOTALL
)
"""Matches a table that this module fills; other commands fill others."""


@dataclass(frozen=True)
class Options:
    """Fill the tables of docs/ and of the extras' pages from raw rounds."""


def run(_: Options) -> None:
    """Update the documents."""
    for document in DOCUMENTS:
        document.write_text(filled(document.read_text()))


def filled(text: str) -> str:
    """Return a document with all tables updated."""

    def table_of(marked: re.Match[str]) -> str:
        name = marked[1]
        text = summary() if name == "summary" else SHOW[name](result(name))
        return f"<!-- {name} -->\n{text}\n<!-- end -->"

    return TABLE.sub(table_of, text)


def result(name: str) -> dict[str, Any]:
    """Read the results behind a table."""
    data: dict[str, Any] = json.loads((RESULTS / f"{OF_PARTS.get(name, name)}.json").read_text())
    return data


def summary() -> str:
    """Return the summary table, with one line per question."""
    alone, paired = (read_samples(result("loop")["worlds"][ranks]) for ranks in ("1", "2"))
    exchanged = read_samples(result("exchange")["samples"])
    read = read_samples(result("input")["samples"])
    prepared = read_samples(result("prepare")["samples"])
    rounds = result("train")["rounds"]["224"]
    name = train.together(train.SHIPPED_CYCLE_MS)
    scaling = spread([rates[name] / rates[train.APART] for rates in rounds]).text()
    return columns(
        [
            ["what", "compared with", "1 rank", "2 ranks"],
            [
                "CPU time of a step of the loop, on a network so small that little else is left",
                "one `tf.function` call a step",
                ratio(alone, loop.OURS, loop.CALLS).text(),
                ratio(paired, loop.OURS, loop.CALLS).text(),
            ],
            [
                "the same",
                "a loop in the graph without any bookkeeping",
                ratio(alone, loop.OURS, loop.BARE_LOOP).text(),
                ratio(paired, loop.OURS, loop.BARE_LOOP).text(),
            ],
            [
                "CPU time of an exchange of ResNet50's gradients",
                "one bare grouped all-reduce",
                "",
                ratio(exchanged, exchange.OURS, exchange.BARE).text(),
            ],
            [
                "images/s of two ranks, ResNet50, 224 pixels, 16 a rank",
                "two independent runs on the same two cores",
                "",
                scaling,
            ],
            [
                "CPU time of an image from shard to batch, 224 pixels",
                "decoding and resizing alone",
                ratio(read, input_.PIPELINE, input_.FLOOR).text(),
                "",
            ],
            [
                "the same",
                "a textbook pipeline: decode all, resize, crop, float32",
                ratio(read, input_.PIPELINE, input_.TEXTBOOK).text(),
                "",
            ],
            [
                "CPU time of an image from file to shard, all processes",
                "the usual converter, which decodes it",
                ratio(prepared, prepare.OURS, prepare.USUAL).text(),
                "",
            ],
        ]
    )
