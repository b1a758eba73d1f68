"""Check the lock files for known vulnerabilities that have not been reviewed.

pip-audit looks up every package of every lock file in OSV (https://osv.dev), which requires
internet access. Reviewed vulnerabilities are in known-vulnerabilities.toml, each with a reason and
a date of the next review.
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
    """A known vulnerability of a locked version."""

    package: str
    version: str
    ids: tuple[str, ...]
    """Identifiers of the vulnerability in several databases."""

    fixed: tuple[str, ...]
    """Versions that fix it."""


@dataclass(frozen=True)
class Judgement:
    """A reviewed vulnerability: why it is accepted, and until when."""

    package: str
    id: str
    reason: str
    until: date


def judgements(path: Path) -> list[Judgement]:
    """Read the reviewed vulnerabilities.

    Raises:
        UserError: An entry has missing or unknown keys.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["judged"]
        return [Judgement(**entry) for entry in entries]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{path}: {error}; an entry has package, id, reason, until") from error


def findings(report: Mapping[str, Any]) -> list[Finding]:
    """Parse the JSON output of pip-audit.

    Raises:
        UserError: pip-audit has skipped a package.
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
    """Return what must be reviewed, one sentence each.

    Args:
        locks_by_finding: Findings with the names of their lock files.
        accepted: Reviewed vulnerabilities.
        today: Current date; a review is valid up to its date.
    """
    sentences, applied = [], set()
    for finding, locks in locks_by_finding.items():
        matching = [j for j in accepted if j.package == finding.package and j.id in finding.ids]
        applied |= set(matching)
        if not matching:
            fix = f"fixed in {', '.join(finding.fixed)}" if finding.fixed else "not fixed yet"
            sentences.append(
                f"{finding.package} {finding.version} has {' = '.join(finding.ids)}, {fix}; "
                f"it is in {', '.join(sorted(locks))}"
            )
    for judgement in accepted:
        if judgement not in applied:
            sentences.append(
                f"{judgement.package} {judgement.id} was reviewed, but is no longer found; "
                "delete its entry"
            )
        elif judgement.until < today:
            sentences.append(
                f"{judgement.package} {judgement.id}: its review expired on {judgement.until};"
                " review it again"
            )
    return sentences


def scanned(lock: Path, service: Sequence[str]) -> list[Finding]:
    """Look up all packages of a lock file.

    Args:
        lock: Lock file with hashes.
        service: Options of pip-audit that select the vulnerability service.

    Raises:
        UserError: The service does not respond, or the lock file cannot be read.
    """
    command = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip"]
    command += ["--progress-spinner", "off", "--format", "json", "--requirement", str(lock)]
    try:
        completed = subprocess.run(
            [*command, *service],
            capture_output=True, text=True, check=False, timeout=60 * _MINUTES,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{lock.name}: pip-audit timed out after {_MINUTES} minutes") from error
    try:
        return findings(json.loads(completed.stdout))
    except json.JSONDecodeError as error:
        # pip-audit's exit status is 1 both for findings and for failures.
        last_words = completed.stderr.strip().splitlines() or ["no output"]
        raise UserError(
            f"{lock.name}: pip-audit failed; check that OSV can be reached, or pass another URL of"
            f" it as --osv-url. Last line of its output: {last_words[-1]}"
        ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what must be reviewed; return 1 if there is anything, 2 if a lookup failed."""
    parser = argparse.ArgumentParser(prog="python -m environments.audit", description=__doc__)
    parser.add_argument(
        "--osv-url", help="URL of another OSV service (default: https://api.osv.dev/v1/query)"
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
        f"{len(open_problems)} to review"
    )
    return 1 if open_problems else 0


if __name__ == "__main__":
    sys.exit(main())
