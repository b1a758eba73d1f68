"""Ask the judges: `python -m tools.conformance [NAME ...] [--json FILE]`."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from common.errors import UserError
from common.program import report
from tools.conformance.installation import install
from tools.conformance.judges import JUDGES
from tools.conformance.verdict import Verdict


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask the judges; the exit status is 1 if one refuses something for which no reason is
    listed.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tools.conformance",
        description="Ask programs that others wrote whether they accept this project's requests, "
        "answers, files and stacks.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="judges to ask (default: all)")
    parser.add_argument("--json", type=Path, help="file to write the verdicts into; others stay")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in JUDGES]:
        parser.error(f"{', '.join(unknown)}: no such judge; there are {', '.join(JUDGES)}")
    try:
        # One after the other: each takes all that two cores have.
        verdicts = {name: _ask(name) for name in options.names or _here()}
    except UserError as error:
        return report(error)
    if options.json:
        _write(options.json, verdicts)
    return int(any(verdict.unexplained for verdict in verdicts.values()))


def _here() -> list[str]:
    """Return the judges that can be asked, and say which cannot."""
    for name, judge in JUDGES.items():
        if not judge.is_here:
            print(f"{name}: left out, because {judge.needs} names no folder", flush=True)
    return [name for name, judge in JUDGES.items() if judge.is_here]


def _ask(name: str) -> Verdict:
    began = time.monotonic()
    judge = JUDGES[name]
    verdict = judge.ask(install(name, judge.source))
    seconds = time.monotonic() - began
    print(f"{name} ({verdict.judge} {verdict.version}): {verdict.judged}; {seconds:.0f} s")
    print(f"  {verdict.accepted} accepted, {len(verdict.refused)} refused", flush=True)
    for refusal in verdict.refused:
        print(f"  {refusal.what}: {refusal.reason or 'NO REASON IS LISTED'}", flush=True)
    return verdict


def _write(path: Path, verdicts: dict[str, Verdict]) -> None:
    known = json.loads(path.read_text()) if path.exists() else {}
    known |= {name: asdict(verdict) for name, verdict in verdicts.items()}
    ordered = {name: known[name] for name in JUDGES if name in known}
    path.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
