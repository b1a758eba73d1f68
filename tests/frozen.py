"""Facts of the product that a refactoring must not change: `python -m tests.frozen`.

The bits of short runs of each kind, the bytes of the embedded data sets, the resources of each
stack with each option, the help of each command and the exit statuses of wrong calls are compared
with `tests/frozen.json`. A change that is meant is recorded with `--write`, and shows in a review.

Sums of floating-point numbers depend on the CPU's instructions and caches, so the bits of runs are
recorded by CPU. On a CPU without a record, this program also runs the tree of the commit that the
record names, and compares the two.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests import ROOT

RECORD: Final = ROOT / "tests" / "frozen.json"
PLATFORM: Final = ROOT / ".venv" / "bin" / "python"
"""Python of the environment with Pulumi and the Azure SDK; the trainer's runs this program."""
EMBEDDED: Final = ("digits", "scenes", "shapes", "tiles")
STEPS: Final = "20"

# 20 updates; the evaluation at the end is part of the comparison.
_SHORT: Final = (
    *("--max-steps", STEPS, "--export", "False", "--restarts", "0", "--log.report", "False"),
    *("--log.images", "none"),
)
RUNS: Final[Mapping[str, tuple[str, ...]]] = {
    "digits": (),
    "scenes": ("--preset", "scenes"),
    "shapes": ("--preset", "shapes", "--model.width", "16", "--model.image-size", "64"),
    "tiles": ("--preset", "tiles"),
    "head groups": ("--head.groups", "2"),
    "virtual ranks": ("--virtual-ranks.count", "2"),
    "averaging": ("--averaging.every", "4", "--averaging.together-until", "0"),
    "sharded": ("--sharded.state", "True"),
    "stages": ("--stages.count", "2"),
    # As small as can be: CPUs compute with float16 a hundred times as slowly.
    "float16": (
        *("--compute.precision", "mixed_float16", "--optimizer.accumulation", "2"),
        *("--model.depth", "18", "--model.width", "4", "--model.image-size", "8"),
        *("--batch-size", "8", "--max-steps", "5", "--evaluation.batch-size", "32"),
    ),
}
"""Options of the runs, each on two ranks."""

WRONG: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "trainer": (
        ["no-such-command"],
        ["train", "--no-such-option", "1"],
        ["train", "--epochs", "many"],
        ["train", "--preset", "no-such-preset"],
        ["train", "--data.dir", "no/such/folder", "--data.source", "tfrecords"],
        ["evaluate", "--run", "no/such/run"],
        ["export", "--run", "no/such/run"],
        ["verify", "no/such/folder"],
    ),
    "jobs": (
        ["no-such-command"],
        ["submit", "--no-such-option", "1"],
        ["status", "--outputs", "no/such/file"],
    ),
}
"""Command lines whose exit status is recorded; none of them starts anything."""


def main(arguments: Sequence[str]) -> int:
    """Compare, or record; return 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument("--write", action="store_true", help="record what is now")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.part:
        print(json.dumps(PARTS[options.part]()))
        return 0
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    differ = 0
    for part in [options.only] if options.only else PARTS:
        began = time.monotonic()
        now = _measured(part, ROOT)
        where = f"{part} by CPU" if part in BY_CPU else part
        place = record.setdefault(where, {})
        key = _cpu() if part in BY_CPU else None
        if options.write:
            record[where] = now if key is None else {key: now}
            print(f"{part}: {len(now)} recorded")
            continue
        before = place if key is None else place.get(key)
        if before is None:
            print(f"{part}: no record of this CPU; running commit {record['commit']} as well")
            before = _of_commit(record["commit"], part)
        changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
        took = f"{time.monotonic() - began:.0f} s"
        print(f"{part}: {len(now)} compared, {len(changed)} differ ({took})", flush=True)
        for name in changed:
            print(f"  {name}: {before.get(name, 'is new')} -> {now.get(name, 'is gone')}")
        differ += len(changed)
    if options.write:
        record["commit"] = _output("git", "rev-parse", "HEAD").strip()
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    elif differ:
        print(
            f"{differ} differ; a change that is meant is recorded with:"
            " make -C tools frozen ARGS=--write"
        )
    return int(differ > 0)


def _measured(part: str, tree: Path) -> dict[str, str]:
    """Measure a part of a tree in a process of its own, in the environment that the part needs."""
    python = PLATFORM if part in ON_PLATFORM else Path(sys.executable)
    # The tree comes first on the path, before the installed one.
    environment = {**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "100"}
    command = [python, "-m", "tests.frozen", "--part", part]
    done = subprocess.run(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    facts: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return facts


def _of_commit(commit: str, part: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _output("git", "worktree", "add", "--detach", str(tree), commit)
        try:
            return _measured(part, tree)
        finally:
            _output("git", "worktree", "remove", "--force", str(tree))


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _cpu() -> str:
    """Return a name for CPUs that add in the same order: instructions and cache sizes."""
    flags = next(
        line.split(":", 1)[1].split()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("flags")
    )
    caches = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    sizes = [path.read_text(encoding="utf-8").strip() for path in sorted(caches)]
    vectors = sorted(name for name in flags if name.startswith(("avx", "amx", "fma", "sse")))
    return hashlib.sha256(" ".join([*vectors, *sizes]).encode()).hexdigest()[:12]


def _sha256(parts: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(parts):
        digest.update(name.encode() + b"\0" + parts[name])
    return digest.hexdigest()[:16]


def _runs() -> dict[str, str]:
    """SHA-256 of the final state and of the evaluation of each run."""
    from tests.trainer.support.command import final_state, metrics
    from tests.trainer.support.forked import fork_trainer
    from trainer.data.builtin.writer import write_embedded

    facts = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in EMBEDDED:
            with contextlib.redirect_stdout(io.StringIO()):
                write_embedded(name, str(place / "data" / name))
        for name, options in RUNS.items():
            print(f"  {name}", file=sys.stderr, flush=True)
            key = name.replace(" ", "-")
            ended = fork_trainer(
                *("train", *_SHORT, *options, "--name", key), cwd=place, small=False
            )
            if ended.returncode:
                raise SystemExit(f"{name}: status {ended.returncode}\n{ended.stderr}")
            run = place / "runs" / key
            loss = metrics(run, "evaluation")[-1]["validation_loss"]
            facts[name] = f"{_sha256(final_state(run))}, held-out loss {loss}"
    return facts


def _data_sets() -> dict[str, str]:
    """SHA-256 of the files of each embedded data set."""
    from trainer.data.builtin.writer import write_embedded

    facts = {}
    # A manifest holds the command that wrote it, with the folder as it was given.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in EMBEDDED:
            place = Path(name)
            with contextlib.redirect_stdout(io.StringIO()):
                write_embedded(name, name)
            files = (path for path in place.rglob("*") if path.is_file())
            facts[name] = _sha256({str(p.relative_to(place)): p.read_bytes() for p in files})
    return facts


def _stacks() -> dict[str, str]:
    """SHA-256 of the resources of each stack, and of the dev stack with each option."""
    from infra.render.render import run
    from infra.resources import to_json
    from tests.infra.support.stacks import file_of
    from tests.infra.support.variants import OPTIONS

    wanted = [*(("dev", name) for name in OPTIONS), ("prod", "as it is")]
    facts = {}
    for stack, name in wanted:
        resources = run(stack, OPTIONS[name], file_of(stack)).resources
        facts[f"{stack}, {name}"] = _sha256({"": to_json(resources).encode()})
    return facts


def _trainer_commands() -> dict[str, str]:
    from trainer.cli import COMMANDS
    from trainer.cli import main as trainer

    return _commands("trainer", [command.name for command in COMMANDS], trainer)


def _jobs_commands() -> dict[str, str]:
    from jobs.cli import COMMANDS
    from jobs.cli import main as jobs

    return _commands("jobs", list(COMMANDS), jobs)


def _commands(
    program: str, names: Sequence[str], call: Callable[[Sequence[str]], int]
) -> dict[str, str]:
    """SHA-256 of the help of each command, and the status of each wrong call."""
    facts = {}
    for name in names:
        with _captured() as text:
            status = _status(call, [*name.split(), "--help"])
        digest = _sha256({"": text.getvalue().encode()})
        facts[f"{name} --help"] = f"status {status}, {digest}"
    for arguments in WRONG[program]:
        with _captured():
            facts[" ".join(arguments)] = f"status {_status(call, arguments)}"
    return facts


def _status(call: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    try:
        return call(arguments)
    except SystemExit as error:
        return int(error.code or 0)


@contextlib.contextmanager
def _captured() -> Iterator[io.StringIO]:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        yield text


PARTS: Final[Mapping[str, Callable[[], dict[str, str]]]] = {
    "runs": _runs,
    "data sets": _data_sets,
    "stacks": _stacks,
    "trainer commands": _trainer_commands,
    "jobs commands": _jobs_commands,
}
BY_CPU: Final = ("runs",)
ON_PLATFORM: Final = ("stacks", "jobs commands")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
