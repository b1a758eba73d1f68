"""Calls to Azure itself, recorded by public test suites, judge the answers of the simulator.

The recordings and the program that replays them are in a folder that the variable RECORDINGS names.
The program writes the differences of each kind of answer; those that stay have a reason in
recorded/accepted.json.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from rehearsal.control_plane.arm_path import parse
from tools.conformance.installation import ROOT, run_program
from tools.conformance.sent import Sent
from tools.conformance.verdict import ConformanceError, Refusal, Verdict

FOLDER: Final = ROOT / "tools" / "conformance" / "recorded"
ACCEPTED: Final = FOLDER / "accepted.json"
KINDS: Final = FOLDER / "kinds.json"
"""Kinds of requests that the recordings have, with the number of calls of each."""
_DIFFERS: Final = 1
"""Exit status of the program if a difference has no reason."""


@dataclass(frozen=True)
class Rule:
    """Differences that stay."""

    kind: str
    """Pattern of kinds, such as GET Microsoft.Storage/*."""
    differences: tuple[str, ...]
    """Patterns of differences."""
    reason: str

    def fits(self, kind: str, difference: str) -> bool:
        """Whether the rule explains a difference."""
        return fnmatchcase(kind.lower(), self.kind.lower()) and any(
            fnmatchcase(difference, pattern) for pattern in self.differences
        )


def rules() -> list[Rule]:
    """Read accepted.json."""
    return [
        Rule(rule["kind"], tuple(rule["differences"]), rule["reason"])
        for rule in json.loads(ACCEPTED.read_text())
    ]


def judge(workspace: Path) -> Verdict:
    """Replay all calls against the simulator."""
    folder = Path(os.environ.get("RECORDINGS", ""))
    if not (folder / "replay").is_file():
        raise ConformanceError(f"RECORDINGS={folder}: this folder has no program `replay`")
    file = workspace / "rows.json"
    options = ["--product", str(ROOT), "--accepted", str(ACCEPTED), "--json", str(file)]
    run_program([str(folder / "replay"), *options], statuses=(0, _DIFFERS))
    rows = json.loads(file.read_text())
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["kind"]] += row["count"]
    KINDS.write_text(json.dumps(dict(sorted(counts.items())), indent=1) + "\n")
    return verdict(rows, rules())


def verdict(rows: Sequence[Mapping[str, Any]], known: Sequence[Rule]) -> Verdict:
    """Return the verdict of a replay. Pure.

    Args:
        rows: Kinds of answers as the program wrote them, with their differences.
        known: Differences that stay.

    Raises:
        ConformanceError: a rule explains nothing any more.
    """
    refused: list[Refusal] = []
    explained: Counter[Rule] = Counter()
    for row in rows:
        for difference in row["differences"]:
            rule = next(
                (known_rule for known_rule in known if known_rule.fits(row["kind"], difference)),
                None,
            )
            if rule is None:
                refused.append(Refusal(f"{row['kind']} {row['status']}: {difference}"))
            else:
                explained[rule] += 1
    if idle := [known_rule for known_rule in known if not explained[known_rule]]:
        raise ConformanceError(f"no difference of {idle[0].kind} is explained by: {idle[0].reason}")
    calls = sum(row["count"] for row in rows)
    return Verdict(
        "recorded calls of azure-service-operator, azure-powershell and azure-cli",
        "2021 to 2026",
        f"{calls} calls, {len(rows)} kinds of answer",
        sum(not row["differences"] for row in rows),
        tuple(sorted(refused, key=lambda refusal: refusal.what))
        + tuple(
            Refusal(f"{rule.kind}: {count} kinds of difference", rule.reason)
            for rule, count in explained.items()
        ),
    )


def is_recorded(sent: Sent, kinds: Mapping[str, int]) -> int:
    """Return how many recorded calls have the method and the kind of a request."""
    path = sent.path.rstrip("/")
    if path == "/subscriptions":
        return 0
    arm = parse(path)
    kind = arm.collection_kind if arm.tail else arm.kind
    if arm.tail and not arm.name:
        kind = f"{arm.kind}/{arm.tail}"
    wanted = f"{sent.method} {kind}".lower()
    return sum(count for recorded, count in kinds.items() if recorded.lower() == wanted)
