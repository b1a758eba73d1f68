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
from common.prices import Cost, NodePrices, total
from common.text import plural
from infra.outputs import Cluster, PlatformOutputs
from jobs.assets import prepared_data
from jobs.azure import costs, node_prices, submission
from jobs.azure import results as results_of_runs
from jobs.azure.job_records import Job
from jobs.azure.workspace import Workspace, connect
from jobs.commands.launch import hand_over, register_image
from jobs.console import Console, agree, next_command, table
from jobs.errors import AccessError, RequestError, UnreachableError
from jobs.extras.estimate.forecast import expected
from jobs.extras.scaling.measurement import (
    HEADS,
    Task,
    benchmark_config,
    due,
    read_point,
    results,
    row,
    run_key,
    steps_of_repeat,
    task_words,
)
from jobs.following.follower import POLL_SECONDS, FollowSettings
from jobs.following.resubmit_policy import RESULT_UNKNOWN
from jobs.following.supervision_policy import mark
from jobs.following.supervisor import Supervisor
from jobs.options import ASSET, DataOptions, ResubmitOptions
from jobs.spec import from_options
from jobs.spec.builder import find_cluster
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
    wanted,
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
    """Hours after which a job is cancelled that has not ended; they bound the cost of a point."""

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
    """Measure missing points, and print the table.

    Returns:
        Exit status: 0 if every point was measured, 1 if some are missing, 130 after Ctrl-C.
    """
    console = Console(as_json=as_json)
    config = parse_train(["--preset", options.preset, *program])
    prices = node_prices.known(outputs.region, node_prices.of_workspace(outputs, console))
    tasks = make_tasks(options, outputs, config, prices)
    file = options.points_file(outputs.stack)
    points = read(file) if file.exists() else []
    missing = due(tasks, points)
    if len(missing) < len(tasks):
        console.say(f"{file}: {plural(len(tasks) - len(missing), 'point')} measured already")
    if missing and options.data is not None:
        check_data(connect(outputs), options.data, console)
    if missing:
        lead = (
            f"{model_name(config)}, {config.compute.precision}, {config.batch_size} images a rank"
        )
        console.say(f"{lead}\n{_preview(missing)}")
        at_most = (
            f"costs at most {total(task.at_most for task in missing)}: {options.timeout_hours:g} h"
            f" for each attempt, {options.attempts} on Spot nodes; {costs.LEFT_OUT}"
        )
        if options.yes:
            console.say(at_most)
        else:
            agree(at_most, console)
        if not Measuring(options, outputs, config, console, points).of(missing):
            again = next_command("scaling", "--name", options.name)
            console.note(
                "interrupted; jobs that were submitted continue in Azure. The same command"
                f" (`{again} ...`) continues with them"
            )
            return INTERRUPTED
    measured, unused = results(tasks, points)
    text = [table(HEADS, [row(result) for result in measured])] if measured else []
    text += [
        f"{task_words(result['cluster'], result['nodes'], result['data'])}: used although"
        f" {result['used_although']}"
        for result in measured
        if result["used_although"]
    ]
    text += [
        f"not used: {point.size}, nodes {point.nodes}, {point.data}, {point.at}: {point.problem}"
        for point in unused
    ]
    document = {
        "name": options.name,
        "stack": outputs.stack,
        "points": measured,
        "not_used": [
            {name: getattr(point, name) for name in ("size", "nodes", "data", "problem")}
            for point in unused
        ],
        "file": str(file),
    }
    console.answer(document, "\n".join([*text, f"points: {file}"]))
    return 1 if due(tasks, points) else 0


def check_data(workspace: Workspace, asset: str, console: Console) -> None:
    """Check that a data set is registered and complete, before any point is paid.

    Raises:
        UserError: It is not.
    """
    uri = workspace.manager.data_uri(asset)
    try:
        prepared_data.read_manifest(workspace.storage, DataOptions(asset=asset), uri)
    except (AccessError, UnreachableError) as error:
        # The user may lack the role, or the network, to read the data.
        console.note(f"{asset} was not read from here: {str(error).splitlines()[0]}")


def make_tasks(
    options: ScalingOptions, outputs: PlatformOutputs, config: TrainConfig, prices: NodePrices
) -> list[Task]:
    """Return the points that are asked for: by cluster, then ascending by nodes.

    Raises:
        ConfigError: A cluster has fewer nodes, or is not for training.
        SpecError: There is no such cluster.
    """
    tasks, problems, most = list[Task](), [], max(options.nodes)
    for name in dict.fromkeys(options.series or (None,)):
        cluster = find_cluster(outputs, name, "train")
        key = next(key for key, other in outputs.clusters.items() if other is cluster)
        if cluster.duty != "train":
            problems.append(f"--series: {key} has another role, {cluster.duty}")
        if most > cluster.max_nodes:
            problems.append(f"--nodes: {most}, but {key} has at most {cluster.max_nodes}")
        ranks = cluster.gpus_per_node // config.strategy.devices or options.cpu_processes
        hours = options.timeout_hours * (options.attempts if is_spot(cluster) else 1)
        kind = cluster.size, cluster.priority
        for nodes in sorted(set(options.nodes)):
            cost = Cost(hours * nodes * 3600, prices.highest(*kind))
            for data in filter(None, (SYNTHETIC, options.data)):
                point = wanted(config, cluster.size, nodes, nodes * ranks, data)
                predicted = expected(config, cluster, nodes, data)
                tasks.append(Task(key, cluster, point, predicted, prices.find(*kind), cost))
    if problems:
        raise ConfigError(problems)
    return tasks


def is_spot(cluster: Cluster) -> bool:
    """Whether nodes may be pre-empted, and their jobs are submitted again."""
    return cluster.priority == "LowPriority"


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


@dataclass
class Measuring:
    """Measures points and appends them to their file."""

    options: ScalingOptions
    outputs: PlatformOutputs
    config: TrainConfig
    console: Console
    points: list[Point]
    """Points so far, to which those that are measured are added."""

    def __post_init__(self) -> None:
        self._resubmit = ResubmitOptions(attempts=self.options.attempts)
        self._software = from_options.read_software(self.config)
        self._lock = Lock()

    def of(self, missing: Sequence[Task]) -> bool:
        """Measure points: clusters side by side, those of a cluster in their order. A point that
        cannot be measured leaves out the others of its cluster.

        Returns:
            Whether all clusters are done; False after Ctrl-C.
        """
        series = [
            [task for task in missing if task.series == name]
            for name in dict.fromkeys(task.series for task in missing)
        ]
        # Their jobs continue in Azure, so threads may end with the program. Each has a copy of the
        # context, which holds the platform's arguments.
        threads = [
            Thread(target=copy_context().run, args=(self._series, tasks), daemon=True)
            for tasks in series
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

    def _series(self, tasks: Sequence[Task]) -> None:
        workspace: Workspace | None = None
        for number, task in enumerate(tasks, 1):
            point = None
            try:
                # Clients are not shared between threads.
                workspace = workspace or connect(self.outputs)
                point = self._measured(workspace, task)
            except UserError as error:
                self.console.note(f"{task}: {error}")
            if point is not None:
                with self._lock:
                    append(self.options.points_file(self.outputs.stack), point)
                    self.points.append(point)
                self.console.say(f"{task}: {point.problem or f'{point.middle:,.1f} images/s'}")
            if point is None or not point.rates:
                if tasks[number:]:
                    self.console.note(f"left out: {'; '.join(map(str, tasks[number:]))}")
                return

    def _measured(self, workspace: Workspace, task: Task) -> Point | None:
        """Return the measurement of a job; None if the job was not submitted.

        Raises:
            UserError: Azure refused a request, or how the job ends is unknown.
        """
        options, console = self.options, self.console
        supervisor = Supervisor(
            *(workspace, self.outputs.clusters, console),
            FollowSettings(ranks=lambda _: False, poll_seconds=options.poll_seconds),
            self._resubmit,
            resubmits=is_spot(task.cluster),
        )
        key = run_key(options.name, task, self.config, self.points)
        spec = self._spec(task, key)
        submitted = workspace.jobs.attempts(key)
        if submitted:
            console.say(f"{submitted[-1].name}: was submitted before")
            job: Job | None = submitted[-1]
        else:
            submission.look_up(workspace.manager, spec)
            register_image(console, workspace, spec, self._software)
            job = hand_over(console, workspace, spec, self._software, supervisor.retry)
        if job is None:
            return None
        result = supervisor.follow(job)
        if result.exit_code == RESULT_UNKNOWN:
            # No point, so that the same command follows this job again, and submits no other.
            raise RequestError(result.reason)
        facts = {
            "stack": self.outputs.stack,
            "region": self.outputs.region,
            "cluster": f"{task.series}: {task.cluster}",
            "job": result.job.name,
            "image": spec.environment,
            "code": spec.tags["code"],
            "command": spec.command,
            "attempts": str(result.attempts),
        }
        at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        if result.exit_code:
            problem = f"the job: {result.reason}"
            return replace(task.wanted, at=at, environment=facts, problem=problem)
        events = results_of_runs.read_events(workspace.storage, key)
        if not events:
            # No point either: each job that completes has events, so this one may be read later.
            raise RequestError(
                f"{result.job.name}: the events of this job cannot be found although it completed;"
                " the same command looks for them again"
            )
        return read_point(task, events, facts, at, even_if_poor=options.even_if_poor)

    def _spec(self, task: Task, key: str) -> JobSpec:
        options, data = self.options, task.wanted.data
        batch = task.wanted.batch_per_rank * task.wanted.ranks
        steps = options.steps or steps_of_repeat(
            self._rate(task), batch, options.seconds, options.repeat
        )
        config = benchmark_config(self.config, steps, options.repeat, data)
        run_options = RunOptions(
            kind="benchmark",
            preset=options.preset,
            name=key,
            cluster=task.series,
            nodes=task.nodes,
            cpu_processes=options.cpu_processes,
            timeout_hours=options.timeout_hours,
            data=DataOptions(asset=None if data == SYNTHETIC else data),
            resubmit=self._resubmit,
        )
        versions = self._software.versions
        spec = from_options.make_spec(self.outputs, run_options, config, RunAttempt(key), versions)
        tags = {**spec.tags, **(mark(self._resubmit) if is_spot(task.cluster) else {})}
        return replace(spec, tags=tags)

    def _rate(self, task: Task) -> float | None:
        """Return the throughput that a point may reach: by the points so far, or as predicted."""
        measured = alike(self.points, task.wanted)
        if measured:
            return measured[-1].middle / measured[-1].nodes * task.nodes
        predicted = task.expected.images_per_s
        return predicted.high if predicted else None
