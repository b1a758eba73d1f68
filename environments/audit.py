"""Looks up what is locked among known vulnerabilities, and holds it against what was judged.

pip-audit asks OSV (https://osv.dev) about every package of every lock; it needs the internet. What
has been judged is in known-vulnerabilities.toml, with a reason and a date to look again.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from common.errors import UserError

ROOT: Final = Path(__file__).resolve().parents[1]
JUDGED: Final = ROOT / "environments" / "known-vulnerabilities.toml"

_MINUTES: Final = 10


@dataclass(frozen=True)
class Finding:
    """A known vulnerability of a version that is locked."""

    package: str
    version: str
    ids: tuple[str, ...]
    """Of several databases, all for the same."""

    fixed: tuple[str, ...]
    """Versions that mend it."""


@dataclass(frozen=True)
class Judgement:
    """Why a finding may stay, and until when."""

    package: str
    id: str
    reason: str
    until: date


def judgements(path: Path) -> list[Judgement]:
    """Read those that are committed.

    Raises:
        UserError: an entry lacks something or has more than it may.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["judged"]
        return [Judgement(**entry) for entry in entries]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{path}: {error}; an entry is package, id, reason, until") from error


def findings(report: Mapping[str, Any]) -> list[Finding]:
    """What pip-audit's JSON tells.

    Raises:
        UserError: it did not look a package up.
    """
    vulnerabilities = []
    for package in report["dependencies"]:
        if "skip_reason" in package:
            raise UserError(f"{package['name']} was not looked up: {package['skip_reason']}")
        vulnerabilities += [
            Finding(
                package["name"],
                package["version"],
                (entry["id"], *entry["aliases"]),
                tuple(entry["fix_versions"]),
            )
            for entry in package["vulns"]
        ]
    return vulnerabilities


def problems(
    locks_by_finding: Mapping[Finding, Iterable[str]], accepted: Sequence[Judgement], today: date
) -> list[str]:
    """What somebody has to look at: a sentence each.

    Args:
        locks_by_finding: the findings, with the names of the locks.
        accepted: what may stay.
        today: a judgement is good up to its date.
    """
    sentences, applied = [], set()
    for finding, locks in locks_by_finding.items():
        matching = [j for j in accepted if j.package == finding.package and j.id in finding.ids]
        applied |= set(matching)
        if not matching:
            mended = f"mended in {', '.join(finding.fixed)}" if finding.fixed else "mended nowhere"
            sentences.append(
                f"{finding.package} {finding.version} has {' = '.join(finding.ids)}, {mended}; "
                f"it is in {', '.join(sorted(locks))}"
            )
    for judgement in accepted:
        if judgement not in applied:
            sentences.append(
                f"{judgement.package} {judgement.id} was judged, but is found no more; "
                "delete the entry"
            )
        elif judgement.until < today:
            sentences.append(
                f"{judgement.package} {judgement.id} was judged until {judgement.until}; look again"
            )
    return sentences


def scanned(lock: Path, service: Sequence[str]) -> list[Finding]:
    """Ask about all packages of a lock.

    Args:
        lock: with hashes.
        service: options that tell pip-audit whom to ask.

    Raises:
        UserError: the service does not answer, or the lock cannot be read.
    """
    command = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip"]
    command += ["--progress-spinner", "off", "--format", "json", "--requirement", str(lock)]
    try:
        completed = subprocess.run(
            [*command, *service],
            capture_output=True, text=True, check=False, timeout=60 * _MINUTES,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{lock.name}: no answer within {_MINUTES} minutes") from error
    try:
        return findings(json.loads(completed.stdout))
    except json.JSONDecodeError as error:
        # Its exit status is 1 for findings as for failures.
        last_words = completed.stderr.strip().splitlines() or ["it said nothing"]
        raise UserError(
            f"{lock.name}: pip-audit gave no answer; OSV must be in reach (--osv-url names another "
            f"address of it). Its last words: {last_words[-1]}"
        ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what must be looked at; the exit status is 1 if there is any, 2 without an answer."""
    parser = argparse.ArgumentParser(prog="python -m environments.audit", description=__doc__)
    parser.add_argument(
        "--osv-url", help="of a service that answers as https://api.osv.dev/v1/query"
    )
    options = parser.parse_args(arguments)
    service = ["--vulnerability-service", "osv"]
    service += ["--osv-url", options.osv_url] if options.osv_url else []
    locks = sorted((ROOT / "locks").glob("*.txt"))
    locks_by_finding: dict[Finding, list[str]] = {}
    try:
        judged = judgements(JUDGED)
        with ThreadPoolExecutor(4) as pool:
            for lock, lock_findings in zip(
                locks, pool.map(lambda lock: scanned(lock, service), locks), strict=True
            ):
                for finding in lock_findings:
                    locks_by_finding.setdefault(finding, []).append(lock.name)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    open_problems = problems(locks_by_finding, judged, datetime.now(UTC).date())
    for problem in open_problems:
        print(f"error: {problem}", file=sys.stderr)
    print(
        f"{len(locks)} locks, {len(locks_by_finding)} known vulnerabilities, "
        f"{len(open_problems)} to look at"
    )
    return 1 if open_problems else 0


if __name__ == "__main__":
    sys.exit(main())
