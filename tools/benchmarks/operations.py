"""The operations that a profiled step spends its time in, as counted by xprof.

    make -C tools profile RUN=runs/NAME &
    .venv-trainer/bin/python -m tools.benchmarks operations

Asks the page that `make -C tools profile` serves for its table of operations and adds up their self
time by type, over all threads of the host or on the device. The profiler leaves out some of the
shortest.
"""

import gzip
import json
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from common.errors import UserError
from tools.benchmarks.measure import columns

DATA = "data/plugin/profile"
SHOWN = 8


@dataclass(frozen=True)
class Options:
    """The types of operations that take longest in a profiled step, as counted by the page of
    `make -C tools profile`.
    """

    page: str = "http://localhost:8791"
    """Address of the page."""


def run(options: Options) -> None:
    """Print the types of operations that take longest.

    Raises:
        UserError: The page is not served, or has no profile.
    """
    try:
        profiles = _get(f"{options.page}/{DATA}/runs")
    except OSError as error:
        raise UserError(
            f"{options.page}: does not answer ({error}); run `make -C tools profile"
            " RUN=runs/NAME` meanwhile"
        ) from error
    if not profiles:
        raise UserError(f"{options.page}: has no profile; docs/look-into-a-run.md records one")
    profile = profiles[0]
    query = urllib.parse.urlencode({"run": profile, "tag": "framework_op_stats"})
    answer = _get(f"{options.page}/{DATA}/data?{query}")
    shares = by_type(read_rows(answer[0] if isinstance(answer, list) else answer))
    rows = [["operation", "part of the time"]]
    rows += [[kind, f"{share:.0%}"] for kind, share in shares[:SHOWN]]
    print(columns(rows))


def by_type(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """Return type and fraction of the self time, the longest first, without waiting."""
    times: dict[str, float] = defaultdict(float)
    for row in rows:
        if row["type"] != "IDLE":
            times[row["type"]] += row["total_self_time"]
    total = sum(times.values())
    return [(kind, times[kind] / total) for kind in sorted(times, key=lambda k: -times[k])]


def read_rows(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Convert a table of xprof to rows."""
    names = [column["id"] for column in table["cols"]]
    return [
        dict(zip(names, [cell["v"] if cell else None for cell in row["c"]], strict=True))
        for row in table["rows"]
    ]


def _get(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 the page on this machine
        data = answer.read()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
