"""`python -m jobs scaling`: measure images/s by number of nodes, with short jobs."""

import re
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Thread
from typing import Annotated

from common import fields
from common.annotations import Bounds
from common.errors import INTERRUPTED, ConfigError, UserError
from common.prices import total
from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.assets import images, prepared_data
from jobs.azure import costs, node_prices, results, submission
from jobs.azure.workspace import Workspace, connect
from jobs.commands.follow import make_supervisor
from jobs.commands.launch import hand_over
from jobs.console import Console, agree, next_command, table
from jobs.errors import AccessError, RequestError, UnreachableError
from jobs.extras.estimate.forecast import expected
from jobs.extras.scaling.measurement import (
    STACK,
    Task,
    benchmark_config,
    due,
    read_point,
    run_key,
    steps_of_repeat,
    wanted_points,
)
from jobs.extras.scaling.report import HEADS, Measured
from jobs.following.follower import POLL_SECONDS, FollowSettings
from jobs.following.resubmit_policy import RESULT_UNKNOWN
from jobs.following.supervision_policy import mark
from jobs.options import ASSET, DataOptions, ResubmitOptions
from jobs.spec import from_options
from jobs.spec.from_options import RunOptions
from jobs.spec.job_spec import JobSpec
from jobs.spec.run_key import RunAttempt
from jobs.throughput import (
    FILE,
    FOLDER,
    SYNTHETIC,
    Point,
    alike,
    append,
    model_name,
    name_problems,
    read,
    words,
)
from trainer.config import TrainConfig
from trainer.presets import parse_train


@dataclass(frozen=True)
class ScalingOptions:
    """Measure images/s of a run by number of nodes, with short jobs: clusters side by side, the
    points of a cluster one after the other, ascending. Says first what that costs at most, and asks
    once. The same command with the same name continues. Options of the trainer may follow after
    `--`.
    """

    name: str = "sweep"
    """Name of the measurement. Its points are in scaling/STACK/NAME/points.jsonl, which is only
    appended to; `plan --stack` uses those of all measurements of the stack."""

    preset: str = "imagenet-ndv2"
    """Preset of the trainer, whose network, batch of a GPU and precision are measured."""

    nodes: Annotated[tuple[int, ...], Bounds(at_least=1)] = (1, 2)
    """Numbers of nodes to measure."""

    series: tuple[str, ...] = ()
    """Clusters by their names in the stack's settings, such as gpu; none is the usual one."""

    data: str | None = None
    """NAME:VERSION of a registered data set, on which every point is measured as well as on
    synthetic data."""

    repeat: Annotated[int, Bounds(at_least=1)] = 3
    """Repeats of a point, in one job; as many steps as one repeat has warm up, and are left out."""

    seconds: Annotated[float, Bounds(above=0)] = 60.0
    """Seconds that the repeats of a point are to take together, by the expected throughput."""

    steps: Annotated[int | None, Bounds(at_least=1)] = None
    """Steps of a repeat; None computes them from --seconds."""

    cpu_processes: Annotated[int, Bounds(at_least=1)] = 2
    """Processes per node without GPUs."""

    timeout_hours: Annotated[float, Bounds(above=0)] = 0.5
    """Hours after which a job is cancelled that has not ended; they bound what a point costs."""

    attempts: Annotated[int, Bounds(at_least=1, at_most=99)] = 3
    """Maximum number of attempts of a point whose Spot nodes are pre-empted."""

    even_if_poor: bool = False
    """Use points too whose ranks did not see all GPUs, or not the InfiniBand that the VM size has,
    as in a rehearsal. Without it such a point is kept, marked, and not used."""

    folder: str = FOLDER
    """Folder of all measurements."""

    yes: bool = False
    """Do not ask."""

    poll_seconds: Annotated[float, Bounds(above=0)] = POLL_SECONDS
    """Pause between two requests to Azure, in seconds."""

    def __post_init__(self) -> None:
        problems = fields.problems(self) or name_problems(self.name)
        if not self.nodes:
            problems.append("--nodes: is missing")
        if self.data is not None and not re.fullmatch(ASSET, self.data):
            problems.append(f"--data: {self.data!r} must be NAME:VERSION, such as imagenet:3")
        if problems:
            raise ConfigError(problems)

    def check(self, program: tuple[str, ...]) -> None:
        """Check the preset together with the trainer's options.

        Raises:
            ConfigError: They are invalid.
        """
        parse_train(["--preset", self.preset, *program])

    def points_file(self, stack: str) -> Path:
        """Return the file of the points."""
        return Path(self.folder) / stack / self.name / FILE


def run(
    options: ScalingOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Measure what is missing, and print the table.

    Returns:
        Exit status: 0 if every point was measured, 1 if some are missing, 130 after Ctrl-C.
    """
    console = Console(as_json=as_json)
    config = parse_train(["--preset", options.preset, *program])
    tasks = make_tasks(options, outputs, config, console)
    file = options.points_file(outputs.stack)
    found = read(file) if file.exists() else []
    missing = due(tasks, found)
    lead = f"{model_name(config)}, {config.compute.precision}, {config.batch_size} images a rank"
    if len(missing) < len(tasks):
        console.say(f"{file}: {plural(len(tasks) - len(missing), 'point')} measured already")
    if missing and options.data is not None:
        check_data(connect(outputs), options.data, console)
    if missing:
        console.say(f"{lead}\n{_preview(missing)}")
        at_most = (
            f"costs at most {total(task.at_most for task in missing)}: {options.timeout_hours:g} h"
            f" for each attempt, {options.attempts} on Spot nodes; {costs.LEFT_OUT}"
        )
        if options.yes:
            console.say(at_most)
        else:
            agree(at_most, console)
        if not Measuring(options, outputs, config, console, found).of(missing):
            again = next_command("scaling", "--name", options.name)
            console.note(
                "interrupted; jobs that were submitted continue in Azure. The same command"
                f" (`{again} ...`) continues with them"
            )
            return INTERRUPTED
    measured = Measured.of(options.name, outputs.stack, tasks, found)
    text = [table(HEADS, [one.row() for one in measured.results])] if measured.results else []
    text += [*measured.sentences(), *(f"not used: {line}" for line in measured.not_used())]
    text.append(f"points: {file}")
    console.answer({**measured.document(), "file": str(file)}, "\n".join(text))
    return 1 if due(tasks, found) else 0


def check_data(workspace: Workspace, asset: str, console: Console) -> None:
    """Check that a data set is registered and complete, before any point is paid.

    Raises:
        UserError: It is not.
    """
    uri = prepared_data.find(workspace.manager, asset)
    try:
        prepared_data.read_manifest(workspace.storage, DataOptions(asset=asset), uri)
    except (AccessError, UnreachableError) as error:
        # The user may lack the role, or the network, to read the data.
        console.note(f"{asset} was not read from here: {str(error).splitlines()[0]}")


def make_tasks(
    options: ScalingOptions, outputs: PlatformOutputs, config: TrainConfig, console: Console
) -> list[Task]:
    """Return the points that are asked for, with what is expected of each and what it costs."""
    data = [SYNTHETIC, *([options.data] if options.data else [])]
    points = wanted_points(
        outputs, options.series, options.nodes, data, config, options.cpu_processes
    )
    workspace = node_prices.of_workspace(outputs, console)
    prices = node_prices.known(outputs.region, workspace)
    return [
        Task(
            name,
            cluster,
            point,
            expected(config, cluster, point.nodes, point.data),
            prices.find(cluster.size, cluster.priority),
            options.timeout_hours
            * (options.attempts if cluster.priority == "LowPriority" else 1)
            * point.nodes,
            prices.highest(cluster.size, cluster.priority),
        )
        for name, cluster, point in points
    ]


def _preview(missing: Sequence[Task]) -> str:
    rows = [
        (
            *(task.series, str(task.nodes), task.wanted.data),
            f"{words(task.expected.images_per_s)} {task.expected.reason}".rstrip(),
            str(total([task.at_most])),
        )
        for task in missing
    ]
    return table(("cluster", "nodes", "data", "expected images/s", "at most"), rows)


class Measuring:
    """Measures points and appends them to their file.

    Args:
        options: Options of the command.
        outputs: Outputs of the stack.
        config: Configuration of the run.
        console: Prints what happens.
        found: Points so far, to which those that are measured are added.
    """

    def __init__(
        self,
        options: ScalingOptions,
        outputs: PlatformOutputs,
        config: TrainConfig,
        console: Console,
        found: list[Point],
    ) -> None:
        self._options, self._outputs, self._config = options, outputs, config
        self._console, self._found = console, found
        self._software = from_options.read_software(config)
        self._file, self._lock = options.points_file(outputs.stack), Lock()

    def of(self, missing: Sequence[Task]) -> bool:
        """Measure points: clusters side by side, those of a cluster in their order. A point that
        cannot be measured leaves out the others of its cluster.

        Returns:
            Whether all clusters are done; False after Ctrl-C.
        """
        series: dict[str, list[Task]] = {}
        for task in missing:
            series.setdefault(task.series, []).append(task)
        # Their jobs continue in Azure, so threads may end with the program. Each has a copy of the
        # context, which holds the platform's arguments.
        threads = [
            Thread(target=copy_context().run, args=(self._series, own), daemon=True)
            for own in series.values()
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        except KeyboardInterrupt:
            return False
        return True

    def _series(self, own: Sequence[Task]) -> None:
        workspace: Workspace | None = None
        for number, task in enumerate(own):
            try:
                # Clients are not shared between threads.
                workspace = workspace or connect(self._outputs)
                point = self._measured(workspace, task)
            except UserError as error:
                self._console.note(f"{task}: {error}")
                point = None
            if point is not None:
                with self._lock:
                    append(self._file, point)
                    self._found.append(point)
                told = point.problem or f"{point.middle:,.1f} images/s"
                self._console.say(f"{task}: {told}")
            if point is None or not point.rates:
                left = own[number + 1 :]
                if left:
                    self._console.note(f"left out: {'; '.join(map(str, left))}")
                return

    def _measured(self, workspace: Workspace, task: Task) -> Point | None:
        """Return what a job has measured; None if the job was not submitted.

        Raises:
            UserError: Azure refused a request, or how the job ends is unknown.
        """
        options = self._options
        settings = FollowSettings(ranks=lambda _: False, poll_seconds=options.poll_seconds)
        resubmit = ResubmitOptions(attempts=options.attempts)
        supervisor = make_supervisor(
            workspace,
            self._outputs,
            self._console,
            settings,
            resubmit,
            resubmits=task.cluster.priority == "LowPriority",
            notifies=False,
        )
        key = run_key(options.name, task, self._config, self._found)
        spec = self._spec(task, key, resubmit)
        attempts = workspace.jobs.attempts(key)
        if attempts:
            self._console.say(f"{attempts[-1].name}: was submitted before")
            job = attempts[-1]
        else:
            submission.look_up(workspace.manager, spec)
            image = self._software.image(spec)
            registry = workspace.image_registry
            images.ensure(workspace.manager, workspace.storage, image, registry=registry)
            submitted = hand_over(self._console, workspace, spec, self._software, supervisor.retry)
            if submitted is None:
                return None
            job = submitted
        result = supervisor.follow(job)
        facts = {
            STACK: self._outputs.stack,
            "region": self._outputs.region,
            "cluster": f"{task.series}: {task.cluster}",
            "job": result.job.name,
            "image": spec.environment,
            "code": spec.tags["code"],
            "command": spec.command,
            "attempts": str(result.attempts),
        }
        if result.exit_code == RESULT_UNKNOWN:
            # No point, so that the same command follows this job again, and submits no other.
            raise RequestError(result.reason)
        if result.exit_code:
            return replace(
                task.wanted, at=_now(), environment=facts, problem=f"the job: {result.reason}"
            )
        events = results.read_events(workspace.storage, key)
        if not events:
            # No point either: each job that completes has events, so this one may be read later.
            raise RequestError(
                f"{result.job.name}: the events of this job cannot be found although it completed;"
                " the same command looks for them again"
            )
        return read_point(task, events, facts, _now(), even_if_poor=options.even_if_poor)

    def _spec(self, task: Task, key: str, resubmit: ResubmitOptions) -> JobSpec:
        options, data = self._options, task.wanted.data
        steps = options.steps
        if steps is None:
            batch = task.wanted.batch_per_rank * task.wanted.ranks
            steps = steps_of_repeat(self._rate(task), batch, options.seconds, options.repeat)
        config = benchmark_config(self._config, steps, options.repeat, data)
        run_options = RunOptions(
            kind="benchmark",
            preset=options.preset,
            name=key,
            cluster=task.series,
            nodes=task.nodes,
            cpu_processes=options.cpu_processes,
            timeout_hours=options.timeout_hours,
            data=DataOptions(asset=None if data == SYNTHETIC else data),
            resubmit=resubmit,
        )
        versions = self._software.versions
        attempt = RunAttempt(key)
        spec = from_options.make_spec(self._outputs, run_options, config, attempt, versions)
        if task.cluster.priority == "LowPriority":
            spec = replace(spec, tags={**spec.tags, **mark(resubmit)})
        return spec

    def _rate(self, task: Task) -> float | None:
        """Return the throughput that a point may reach: by the points so far, or as predicted."""
        measured = alike(self._found, task.wanted)
        if measured:
            return measured[-1].middle / measured[-1].nodes * task.nodes
        predicted = task.expected.images_per_s
        return predicted.high if predicted else None


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
