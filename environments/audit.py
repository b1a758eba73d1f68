"""Check the lock files for known vulnerabilities that have not been reviewed.

pip-audit looks up every locked package in OSV (https://osv.dev), which requires internet access.
Reviewed vulnerabilities are in known-vulnerabilities.toml, each with a reason and the date of
its next review.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from common.errors import UserError

ROOT: Final = Path(__file__).resolve().parents[1]
JUDGED: Final = ROOT / "environments" / "known-vulnerabilities.toml"


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
        return [Judgement(**entry) for entry in tomllib.loads(path.read_text())["judged"]]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{path}: {error}; an entry has package, id, reason, until") from error


def problems(
    reports: Mapping[str, Sequence[Mapping[str, Any]]], accepted: Sequence[Judgement], today: date
) -> Iterator[str]:
    """Yield what must be reviewed, one sentence each.

    Args:
        reports: By the name of each lock, its packages as pip-audit reports them.
        accepted: Reviewed vulnerabilities.
        today: Current date; a review is valid up to its date.
    """
    locks: dict[tuple[str, ...], list[str]] = {}
    for lock, packages in reports.items():
        for package in packages:
            for vulnerability in package.get("vulns", ()):
                fix = ", ".join(vulnerability["fix_versions"])
                names = (vulnerability["id"], *vulnerability["aliases"])
                key = (package["name"], package["version"], fix, *names)
                locks.setdefault(key, []).append(lock)
            if "skip_reason" in package:
                yield f"{package['name']} was not looked up: {package['skip_reason']}"
    applied = set()
    for key, where in locks.items():
        (name, version, fix), names = key[:3], key[3:]
        matching = {entry for entry in accepted if entry.package == name and entry.id in names}
        applied |= matching
        if not matching:
            fixed = f"fixed in {fix}" if fix else "not fixed yet"
            yield (
                f"{name} {version} has {' = '.join(names)}, {fixed}; it is in"
                f" {', '.join(sorted(where))}"
            )
    for entry in accepted:
        name = f"{entry.package} {entry.id}"
        if entry not in applied:
            yield f"{name} was reviewed, but is no longer found; delete its entry"
        elif entry.until < today:
            yield f"{name}: its review expired on {entry.until}; review it again"


def report(lock: Path, osv_url: str) -> list[dict[str, Any]]:
    """Look up all packages of a lock file, and return them as pip-audit reports them.

    Raises:
        UserError: The service does not respond, or the lock file cannot be read.
    """
    command = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip"]
    command += ["--progress-spinner", "off", "--format", "json", "--requirement", str(lock)]
    command += ["--vulnerability-service", "osv", "--osv-url", osv_url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except json.JSONDecodeError as error:
        # pip-audit's exit status is 1 both for findings and for failures.
        raise UserError(
            f"{lock.name}: pip-audit failed; check that OSV can be reached, or pass another URL of"
            f" it as --osv-url. Its output ends with: {done.stderr.strip()[-200:]}"
        ) from error
    return packages


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what must be reviewed; return 1 if there is anything, 2 if a lookup failed."""
    parser = argparse.ArgumentParser(prog="python -m environments.audit", description=__doc__)
    parser.add_argument("--osv-url", default="https://api.osv.dev/v1/query", help="URL of OSV")
    options = parser.parse_args(arguments)
    locks = sorted((ROOT / "locks").glob("*.txt"))
    try:
        accepted = judgements(JUDGED)
        with ThreadPoolExecutor(4) as pool:
            answers = pool.map(lambda lock: report(lock, options.osv_url), locks)
            reports = dict(zip((lock.name for lock in locks), answers, strict=True))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    open_problems = list(problems(reports, accepted, datetime.now(UTC).date()))
    for problem in open_problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"{len(locks)} locks, {len(accepted)} reviewed, {len(open_problems)} to review")
    return 1 if open_problems else 0


if __name__ == "__main__":
    sys.exit(main())
