"""`python -m jobs compare RUN...`: a table and a page about several runs, read from storage.

Only the small files that describe a run are read. The page is the trainer's own: the trainer is
started as a program, because its page needs plots, and no second implementation has to be kept.
The table needs neither the trainer nor its environment.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

from common.annotations import Positional
from common.errors import ConfigError
from common.prices import UNKNOWN, Cost, total
from common.program import load
from common.text import duration, listing
from infra.outputs import PlatformOutputs
from jobs.azure import costs, results
from jobs.azure.costs import JobCosts
from jobs.azure.job_records import Job
from jobs.azure.storage import Storage
from jobs.azure.workspace import connect
from jobs.console import SHOWN, Console, next_command, table
from jobs.errors import MissingError
from jobs.leaves import LEAVES
from jobs.spec.from_options import REPOSITORY
from jobs.spec.run_key import key_problems, run_of
from trainer.config import Metric, metrics_in

FILES: Final = ("config.json", "metrics.jsonl", "result.json")
BASELINE: Final = "the same answer for every image, such as always the largest class"
"""The predictions whose metrics `baseline` has."""
_IDENTIFYING: Final = ("name", "runs_dir", "max_seconds")
"""Options that identify or limit a run, and do not affect its training."""
_TRAINER: Final = REPOSITORY / ".venv-trainer" / "bin" / "python"
"""Python of the environment in which the page can be written."""


@dataclass(frozen=True)
class CompareOptions:
    """Compare runs: configuration, results, time and cost, without downloading the runs; or show
    those of one run. Curves are in an HTML page.
    """

    runs: Annotated[tuple[str, ...], Positional("RUN..."), SHOWN] = ()
    """Keys of the runs, or names of jobs of theirs."""

    page: str = "runs/compare.html"
    """HTML page to write."""

    def __post_init__(self) -> None:
        problems = [problem for key in self.keys for problem in key_problems(key)]
        if problems:
            raise ConfigError(problems)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the runs, each once."""
        return tuple(dict.fromkeys(map(run_of, self.runs)))


@dataclass(frozen=True)
class ComparedRun:
    """A run with its files, attempts and costs."""

    key: str
    files: Mapping[str, bytes]
    """Contents of those of `FILES` that exist."""
    jobs: Sequence[Job]
    """Attempts of the run."""
    cost: Sequence[Cost]
    """Their costs."""

    @property
    def config(self) -> dict[str, str]:
        """Options as texts, by dotted key; empty if they cannot be read."""
        stored = _parsed(self.files.get("config.json", b"")).get("config")
        options = dict(_leaves(stored if isinstance(stored, dict) else {}))
        return {key: text for key, text in options.items() if key not in _IDENTIFYING}

    @property
    def result(self) -> dict[str, Any]:
        """Final result, or the newest metrics of a run that has none."""
        result = _parsed(self.files.get("result.json", b""))
        if result:
            return result
        newest: dict[str, Any] = {}
        for line in self.files.get("metrics.jsonl", b"").splitlines():
            values = _parsed(line)
            newest |= {"steps": values["step"]} if "step" in values else {}
            newest |= {metric.key: values[metric.key] for metric in metrics_in(values)}
            newest |= {"baseline": values["baseline"]} if "baseline" in values else {}
        return newest

    def row(self, metrics: Sequence[Metric]) -> tuple[str, ...]:
        """Return the run's line of the table, with these metrics."""
        result, time = self.result, self.result.get("training_seconds")
        state = self.jobs[-1].status if self.jobs else UNKNOWN
        speed, steps = result.get("images_per_second"), result.get("steps")
        return (
            self.key,
            state if "result.json" in self.files else f"{state} (so far)",
            *(_metric(result, metric.key) for metric in metrics),
            UNKNOWN if steps is None else f"{steps:,}",
            UNKNOWN if speed is None else f"{speed:,.1f}",
            UNKNOWN if time is None else duration(time),
            str(len(self.jobs)),
            *costs.words(self.cost),
        )

    def document(self) -> dict[str, Any]:
        """Return the run for JSON output."""
        return {
            "run": self.key,
            "finished": "result.json" in self.files,
            "attempts": [job.name for job in self.jobs],
            "result": self.result,
            "cost": costs.document(total(self.cost)),
        }

    def write(self, folder: Path) -> None:
        """Write the files, and that of the cost if it is known, to a new folder named by the key.

        The trainer's page takes the name of a run from its folder.
        """
        folder.mkdir()
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        costs.write(folder, total(self.cost))


def run(options: CompareOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Print the table and write the page."""
    console, workspace = Console(as_json=as_json), connect(outputs)
    attempts = {key: workspace.jobs.attempts(key) for key in options.keys}
    every = [job for jobs in attempts.values() for job in jobs]
    cost = JobCosts(workspace.jobs, workspace.manager, outputs.clusters).of(every)
    compared = [
        ComparedRun(key, files, attempts[key], [cost[job.name] for job in attempts[key]])
        for key, files in read_files(workspace.storage, options.keys).items()
    ]
    page = write_page(compared, Path(options.page).absolute(), console)
    differing = differences(compared)
    said = about_runs(compared, outputs)
    console.answer(
        {
            "runs": [each.document() for each in compared],
            "options": {key: dict(zip(options.keys, row, strict=True)) for key, *row in differing},
            "about": said,
            "page": str(page) if page else None,
        },
        "\n".join(_lines(compared, differing, said, page)),
    )
    return 0


def about_runs(runs: Sequence[ComparedRun], outputs: PlatformOutputs) -> list[str]:
    """Return what leaves know of runs, such as their estimates."""
    known = [load(leaf.about_run) for leaf in LEAVES if leaf.about_run]
    return [text for each in runs for about in known if (text := about(each, outputs)) is not None]


def read_files(storage: Storage, keys: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """Read the small files of runs.

    Raises:
        MissingError: Runs have no files in storage; names all of them.
        RequestError: Storage cannot be read from here.
    """
    store = storage.datastores.results
    names = [(key, name) for key in keys for name in FILES]

    def read(file: tuple[str, str]) -> bytes | None:
        key, name = file
        return storage.read(store, f"{results.run_folder(key)}/{name}")

    with ThreadPoolExecutor(8) as pool:
        contents = list(pool.map(read, names))
    stored: dict[str, dict[str, bytes]] = {key: {} for key in keys}
    for (key, name), content in zip(names, contents, strict=True):
        if content is not None:
            stored[key][name] = content
    missing = [key for key, files in stored.items() if not files]
    if missing:
        raise MissingError(
            f"{', '.join(missing)}: no files in container {store.container} of {store.account}, so"
            f" there is nothing to compare yet; `{next_command('status')}` shows the runs"
        )
    return stored


def differences(compared: Sequence[ComparedRun]) -> list[tuple[str, ...]]:
    """Return the options that differ, each with its value in every run. Pure."""
    configs = [run.config for run in compared]
    keys = dict.fromkeys(key for config in configs for key in config)
    rows = [(key, *(config.get(key, UNKNOWN) for config in configs)) for key in keys]
    return [row for row in rows if len(set(row[1:])) > 1]


def write_page(compared: Sequence[ComparedRun], page: Path, console: Console) -> Path | None:
    """Have the trainer write its page about the runs; return None if it cannot, and say why."""
    if not _TRAINER.exists():
        console.note(f"no page is written, as {_TRAINER} is missing; `make setup` installs it")
        return None
    page.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        folders = [Path(scratch) / run.key for run in compared]
        for run, folder in zip(compared, folders, strict=True):
            run.write(folder)
        words = ["-m", "trainer", "report", *map(str, folders), "--output", str(page)]
        done = subprocess.run(
            [_TRAINER, *words], cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
    if done.returncode:
        lines = done.stderr.splitlines()[-3:]
        console.note(f"{page}: not written, as `ml-trainer report` failed:\n{listing(lines)}")
        return None
    return page


def _lines(
    compared: Sequence[ComparedRun],
    differing: Sequence[Sequence[str]],
    said: Sequence[str],
    page: Path | None,
) -> Iterator[str]:
    metrics = list(dict.fromkeys(metric for run in compared for metric in metrics_in(run.result)))
    head = ("run", "state", *(metric.label for metric in metrics), "steps", "images/s", "time")
    rows = [run.row(metrics) for run in compared]
    yield table((*head, "attempts", "node time", "cost"), rows)
    if any(run.result.get("baseline") for run in compared):
        yield f"in brackets: {BASELINE}"
    for run in compared:
        yield from (f"{run.key}: {text}" for text in run.result.get("warnings", ()))
    versions = {run.key: version for run in compared if (version := _data_version(run))}
    if len(set(versions.values())) > 1:
        each = ", ".join(f"{key} {version}" for key, version in versions.items())
        yield f"the runs have different data sets, so their held-out images differ: {each}"
    yield f"cost: {costs.LEFT_OUT}"
    yield from said
    if differing:
        yield "\n" + table(("option", *(run.key for run in compared)), differing)
    elif len(compared) > 1:
        yield "\nno option differs"
    if page is not None:
        yield f"\ncurves and all of this: {page}"


def _data_version(run: ComparedRun) -> str:
    return str(_parsed(run.files.get("config.json", b"")).get("data_version", ""))


def _parsed(content: bytes) -> dict[str, Any]:
    """Parse a JSON object; empty for anything else, such as half a line of a run that is killed."""
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _leaves(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in options.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            yield f"{prefix}{key}", " ".join(map(str, value))
        else:
            yield f"{prefix}{key}", str(value)


def _metric(result: Mapping[str, Any], key: str) -> str:
    """Return a metric, with that of the baseline in brackets if it is known."""
    value, baseline = result.get(key), (result.get("baseline") or {}).get(key)
    shown = UNKNOWN if value is None else f"{value:.2%}"
    return shown if baseline is None else f"{shown} ({baseline:.2%})"
