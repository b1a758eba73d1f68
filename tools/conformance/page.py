"""Writes the tables of docs/reference/conformance.md: `python -m tools.conformance.page`."""

import json
import re
from collections.abc import Mapping
from typing import Final

from tools.conformance import recordings, sent
from tools.conformance.installation import ROOT
from tools.conformance.judges import JUDGES
from tools.conformance.verdict import Verdict

RESULTS: Final = ROOT / "tools" / "conformance" / "results.json"
PAGE: Final = ROOT / "docs" / "reference" / "conformance.md"
TABLE: Final = re.compile(
    r"<!-- (conformance(?:: (?:refused|requests))?) -->\n.*?<!-- end -->", re.DOTALL
)


def filled(text: str, verdicts: Mapping[str, Verdict]) -> str:
    """Return the page with its tables of these verdicts."""
    tables = {
        "conformance": _table(verdicts),
        "conformance: refused": _refused(verdicts),
        "conformance: requests": _requests(verdicts),
    }
    return TABLE.sub(lambda match: f"<!-- {match[1]} -->\n{tables[match[1]]}\n<!-- end -->", text)


def recorded() -> dict[str, Verdict]:
    """Read results.json, in the order of the judges."""
    data = json.loads(RESULTS.read_text())
    return {name: Verdict.read(data[name]) for name in JUDGES if name in data}


def _table(verdicts: Mapping[str, Verdict]) -> str:
    lines = ["| judge | version | subject | judged | accepted | refused |"]
    lines.append("|---|---|---|---|--:|--:|")
    for name, verdict in verdicts.items():
        cells = (verdict.judge, verdict.version, JUDGES[name].judges, verdict.judged)
        lines.append(f"| {' | '.join(cells)} | {verdict.accepted} | {len(verdict.refused)} |")
    return "\n".join(lines)


def _refused(verdicts: Mapping[str, Verdict]) -> str:
    rows = [
        f"| `{name}` | {_cell(refusal.what)} | {_cell(refusal.reason)} |"
        for name, verdict in verdicts.items()
        for refusal in verdict.refused
    ]
    return "\n".join(["| judge | refused | why it stays |", "|---|---|---|", *rows])


def _requests(verdicts: Mapping[str, Verdict]) -> str:
    """Return who has judged each kind of request that `python -m jobs` sends."""
    servers = verdicts.get("fake-servers")
    # Such as "1486 of 1486 requests": the servers have read all, or their verdict names none.
    all_read = servers is not None and re.match(r"(\d+) of \1 ", servers.judged) is not None
    calls = json.loads(recordings.KINDS.read_text())
    lines = ["| request | recorded calls of Azure | generated servers |", "|---|--:|---|"]
    counts = {"Azure": 0, "servers": 0, "neither": 0}
    for request in sent.recorded():
        recorded = recordings.is_recorded(request, calls)
        counts["Azure" if recorded else "servers" if all_read else "neither"] += 1
        lines.append(f"| {request.kind} | {recorded or '-'} | {'yes' if all_read else '-'} |")
    summary = (
        f"Of {sum(counts.values())} kinds, {counts['Azure']} are judged by recorded calls of Azure,"
        f" {counts['servers']} by Microsoft's generated servers alone, and {counts['neither']} by"
        " none of them."
    )
    return "\n".join([summary, "", *lines])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), recorded()))
