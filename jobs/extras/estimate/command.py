"""`python -m jobs plan`: what a run would take on each choice of nodes."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Final

from common import fields
from common.annotations import Bounds
from common.errors import ConfigError
from common.files import write_atomically
from common.page.render import render_page
from infra.catalog import vm_sizes
from infra.catalog.vm_sizes import Size
from infra.outputs import PlatformOutputs
from jobs import throughput
from jobs.azure import node_prices
from jobs.console import Console, next_command
from jobs.errors import RequestError
from jobs.extras.estimate.choosing.advice import ENDS, Wish, read_deadline
from jobs.extras.estimate.choosing.campaign import Campaign, read_share
from jobs.extras.estimate.forecast import Assumptions, Choice, Forecaster
from jobs.extras.estimate.published import RESNETS
from jobs.extras.estimate.report.filing import connect, file
from jobs.extras.estimate.report.page import page_of
from jobs.extras.estimate.report.table import Knowing, Plans, explanation
from jobs.extras.estimate.workload import DataSet, Workload
from jobs.options import DataOptions
from jobs.throughput import Point
from trainer.config import TrainConfig
from trainer.data.manifest import FILE_NAME, load_manifest
from trainer.presets import parse_train

_DEPTHS: Final = {"resnet50": "50", "resnet101": "101", "resnet152": "152"}
_MEASURING_HOURS: Final = 1 / 12
"""Time of a point beside the start of its nodes."""
_STARTS: Final = 10
"""Newest jobs whose starts are looked at."""


@dataclass(frozen=True)
class PlanOptions:
    """Show what a run would take on each VM size, number of nodes and priority: images/s,
    hours and money as ranges, what binds, and on what the figures rest. Nothing is rented. Azure is
    asked only if a stack is named.
    """

    preset: str = "imagenet-ndv2"
    """Preset of the trainer; options of the trainer may follow after `--`."""

    model: str | None = None
    """resnet50, resnet101 or resnet152 instead of the preset's network."""

    deadline: str | None = None
    """Recommend the cheapest choice that ends within a time such as 90min, 2h or 30d, with all of
    its runs."""

    budget: Annotated[float | None, Bounds(above=0)] = None
    """Recommend the fastest choice that costs at most this amount, with all of its runs, in the
    currency of the prices."""

    nodes: tuple[int, ...] = (1, 2, 4, 8)
    """Numbers of nodes to compare; with a stack, at most what its clusters have."""

    data: str | None = None
    """Data set whose manifest has images, bytes and pixels: a folder with manifest.json or, with a
    stack, NAME:VERSION. None is ImageNet, or the data set of the options below."""

    images: Annotated[int | None, Bounds(at_least=1)] = None
    """Training images of the data set."""

    gigabytes: Annotated[float | None, Bounds(above=0)] = None
    """Size of the data set in GB."""

    pixels: Annotated[float | None, Bounds(above=0)] = None
    """Mean size of an image in megapixels."""

    runs: Annotated[int, Bounds(at_least=1)] = 1
    """Configurations to train."""

    seeds: Annotated[int, Bounds(at_least=1)] = 1
    """Runs of each configuration."""

    trials: Annotated[int, Bounds(at_least=0)] = 0
    """Further runs, of a search."""

    failed: str = "0%"
    """Share of runs that fail and are paid for, such as 10%."""

    parallel: Annotated[int, Bounds(at_least=1)] = 1
    """Runs at a time."""

    platform_month: Annotated[float, Bounds(at_least=0)] = 0.0
    """Cost of the platform in a month while no job runs (docs/platform.md), which is added."""

    begin: str | None = None
    """First day of the runs, YYYY-MM-DD, for the cost by month; None is today."""

    hours_between_losses: Annotated[float, Bounds(above=0)] = Assumptions().hours_between_losses
    """Hours that a Spot node is held on average: an assumption, as Azure publishes none."""

    start_minutes: Annotated[float | None, Bounds(at_least=0)] = None
    """Minutes from submission, or from a pre-emption, to the first step. None is the median of the
    stack's newest jobs or, without any, an assumption of 15."""

    region: str | None = None
    """Azure region of the prices; None is that of the stack or, without one, eastus."""

    measured: tuple[str, ...] = ()
    """Files of measured points, which are used instead of published ones for their GPU. By
    default, with a stack, all of its own."""

    explain: str | None = None
    """Print one choice with the formula, source and date of every number: ND40rs_v2:4."""

    run: str | None = None
    """Key of a completed run of the stack: print its estimate and its outcome instead."""

    page: str = "build/plan.html"
    """HTML page to write."""

    def __post_init__(self) -> None:
        problems = []
        if self.model is not None and self.model.lower() not in _DEPTHS:
            problems.append(
                f"--model: throughput of {self.model!r} was not measured, only of"
                f" {', '.join(_DEPTHS)}; measure it first (docs/plan.md)"
            )
        if self.deadline is not None and self.budget is not None:
            problems.append("--deadline and --budget: pass one of them")
        if not self.nodes or min(self.nodes) < 1:
            problems.append("--nodes: must be 1 or more")
        own = [self.images, self.gigabytes, self.pixels]
        if self.data is not None and any(one is not None for one in own):
            problems.append("--data: its manifest has --images, --gigabytes and --pixels")
        if self.data is None and any(one is None for one in own) and set(own) != {None}:
            problems.append("--images, --gigabytes, --pixels: pass all of them, or --data")
        if problems:
            raise ConfigError(problems)
        if self.deadline is not None:
            read_deadline(self.deadline)
        read_share(self.failed)
        self.first_day()

    def first_day(self) -> date:
        """Return the first day of the runs.

        Raises:
            ConfigError: `begin` is no date.
        """
        if self.begin is None:
            return datetime.now(UTC).date()
        try:
            return date.fromisoformat(self.begin)
        except ValueError:
            raise ConfigError([f"--begin: {self.begin!r} must be YYYY-MM-DD"]) from None

    def check(self, program: tuple[str, ...]) -> None:
        """Check the preset together with the trainer's options.

        Raises:
            ConfigError: They are invalid, or nothing is known about such a run.
        """
        if self.run is None:
            Workload(_config(self, program), DataSet())

    @property
    def campaign(self) -> Campaign:
        """The runs that are planned together."""
        counts = self.runs, self.seeds, self.trials
        return Campaign(*counts, read_share(self.failed), self.parallel, self.platform_month)

    @property
    def wish(self) -> Wish | None:
        """What one run is to keep within, so that all do; None wishes for nothing."""
        hours = None if self.deadline is None else read_deadline(self.deadline)
        hours, money = self.campaign.of_run(hours, self.budget)
        return None if hours is None and money is None else Wish(hours, money)


def run(
    options: PlanOptions,
    outputs: PlatformOutputs | None,
    *,
    as_json: bool,
    program: tuple[str, ...] = (),
) -> int:
    """Print the plan, or one choice of it, and write its page."""
    console = Console(as_json=as_json)
    if options.run is not None:
        return _compare(options.run, outputs, console)
    workload = workload_of(options, program, outputs)
    region = options.region or (outputs.region if outputs else "eastus")
    own = outputs is not None and region == outputs.region
    workspace = node_prices.of_workspace(outputs, console) if outputs and own else None
    forecaster = Forecaster(
        workload,
        node_prices.known(region, workspace),
        _assumptions(options, outputs, console),
        measured(options, outputs, console),
    )
    if options.explain is not None:
        choices = explained(options.explain, forecaster)
        document = [
            {**choice.document(), "grounds": [vars(ground) for ground in choice.grounds]}
            for choice in choices
        ]
        console.answer(document, "\n\n".join(map(explanation, choices)))
        return 0
    plan = make_plan(forecaster, wanted(options, outputs), options)
    page = Path(options.page).absolute()
    page.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(
        page, render_page(page_of(plan, file(_command(options, program), outputs, console)))
    )
    console.answer(
        {**plan.document(), "page": str(page)}, "\n".join([*plan.lines(), f"\npage: {page}"])
    )
    return 0


def _compare(key: str, outputs: PlatformOutputs | None, console: Console) -> int:
    """Print the estimate of a run and its outcome."""
    from jobs.extras.estimate.outcome import about_run, compared_runs  # noqa: PLC0415

    if outputs is None:
        raise ConfigError(["--run: name the stack of the run with --stack"])
    (run,) = compared_runs(connect(outputs), outputs, [key])
    line = about_run(run, outputs)
    told = line or f"{key}: not completed, or nothing is known about such a run"
    console.answer({**run.document(), "estimate": line}, told)
    return 0 if line else 1


def _command(options: PlanOptions, program: Sequence[str]) -> str:
    """Return the command line of a plan."""
    # The options of a command line have those of the platform too.
    own = PlanOptions(
        **{one.name: getattr(options, one.name) for one in dataclass_fields(PlanOptions)}
    )
    command = next_command("plan", *fields.to_flags(own, PlanOptions()))
    return command + (f" -- {shlex.join(program)}" if program else "")


def _assumptions(
    options: PlanOptions, outputs: PlatformOutputs | None, console: Console
) -> Assumptions:
    """Return what the forecasts assume; starts are measured on the stack, if it has any."""
    assumed = replace(Assumptions(), hours_between_losses=options.hours_between_losses)
    if options.start_minutes is not None:
        return replace(assumed, start_minutes=options.start_minutes, start_source="--start-minutes")
    if outputs is None:
        return assumed
    try:
        jobs = connect(outputs).jobs
        newest = jobs.newest_first(archived=False)
        waits = []
        for job, _ in zip(newest, range(_STARTS), strict=False):
            started = jobs.details(job.name).started
            if job.created is not None and started is not None:
                waits.append((started - job.created).total_seconds() / 60)
    except RequestError as error:
        console.note(f"starts of the stack are not known: {str(error).splitlines()[0]}")
        return assumed
    if not waits:
        return assumed
    source = f"measured: median of the stack's newest {len(waits)} jobs"
    return replace(assumed, start_minutes=max(median(waits), 0.0), start_source=source)


def measured(
    options: PlanOptions, outputs: PlatformOutputs | None, console: Console
) -> tuple[Point, ...]:
    """Return the measured points that the options name, or else all of the stack, oldest first.

    Raises:
        UserError: A file cannot be read, or has a line that is no point.
    """
    files = [Path(file) for file in options.measured]
    if not files and outputs is not None:
        files = throughput.files_of(Path(throughput.FOLDER), outputs.stack)
        if files:
            console.note(f"measured points: {', '.join(map(str, files))}")
    points = [point for file in files for point in throughput.read(file)]
    return tuple(sorted(points, key=lambda point: point.at))


def workload_of(
    options: PlanOptions,
    program: Sequence[str] = (),
    outputs: PlatformOutputs | None = None,
) -> Workload:
    """Return the run of the options.

    Raises:
        UserError: An option is invalid, the data set cannot be read, or nothing is known about such
            a run.
    """
    return Workload(_config(options, program), _data_set(options, outputs))


def _config(options: PlanOptions, program: Sequence[str]) -> TrainConfig:
    depth = _DEPTHS[options.model.lower()] if options.model else None
    own = ["--model.network", "resnet", "--model.depth", depth] if depth else []
    config = parse_train(["--preset", options.preset, *own, *program])
    network = throughput.model_name(config)
    if network not in RESNETS and not options.model:
        raise ConfigError(
            [
                f"--preset: {options.preset} trains {network}, whose throughput was not measured,"
                f" only that of {', '.join(RESNETS)} at 224 pixels; choose a preset for"
                " ImageNet, or measure it first (docs/plan.md)"
            ]
        )
    return config


def _data_set(options: PlanOptions, outputs: PlatformOutputs | None) -> DataSet:
    name = options.data
    if name is not None:
        folder = Path(name)
        if (folder / FILE_NAME).is_file():
            return DataSet.of(load_manifest(folder), name)
        if outputs is None or ":" not in name:
            raise ConfigError(
                [f"--data: {name} has no {FILE_NAME}; name a folder that has one or, with --stack,"
                 " a registered data set as NAME:VERSION"]
            )  # fmt: skip
        # Only a plan of a stack needs it, and it imports Azure's libraries.
        from jobs.assets import prepared_data  # noqa: PLC0415

        workspace = connect(outputs)
        uri = prepared_data.find(workspace.manager, name)
        manifest = prepared_data.read_manifest(workspace.storage, DataOptions(asset=name), uri)
        return DataSet.of(manifest, name)
    if options.images and options.gigabytes and options.pixels:
        sizes = options.images, options.gigabytes, options.pixels
        return DataSet(*sizes, "as told by --images, --gigabytes, --pixels")
    return DataSet()


def wanted(
    options: PlanOptions, outputs: PlatformOutputs | None
) -> list[tuple[Size, tuple[int, ...], str]]:
    """Return the sizes to compare, each with numbers of nodes and a priority.

    With a stack: its clusters that train on GPUs. Otherwise: the sizes that can be deployed, with
    Spot where Azure documents that it offers it.
    """
    if outputs is None:
        return [
            (size, options.nodes, priority)
            for size in vm_sizes.deployable(gpu=True)
            for priority in _priorities(size)
        ]
    found = []
    for cluster in outputs.clusters.values():
        size = vm_sizes.find(cluster.size)
        if cluster.duty == "train" and size is not None and size.gpus:
            counts = tuple(count for count in options.nodes if count <= cluster.max_nodes)
            found.append((size, counts or (cluster.max_nodes,), str(cluster.priority)))
    if not found:
        raise ConfigError([f"--stack: {outputs.stack} has no cluster with GPUs to train on"])
    return found


def make_plan(
    forecaster: Forecaster,
    sizes: Sequence[tuple[Size, tuple[int, ...], str]],
    options: PlanOptions,
) -> Plans:
    """Forecast all choices, and choose among them. Pure."""
    choices: list[Choice] = []
    for size, counts, priority in sizes:
        for nodes in sorted(set(counts)):
            choices.append(forecaster.choice(size, nodes, priority))
            if choices[-1].images_per_s is None and nodes > 1:
                # More nodes are not known either.
                break
    wish = options.wish
    advice = tuple(wish.advice(choices, end) for end in ENDS) if wish else ()
    plan = Plans(
        forecaster.workload,
        tuple(choices),
        advice,
        forecaster.assumed,
        tuple(forecaster.points),
        options.campaign,
        None,
        options.first_day(),
        forecaster.prices.where,
    )
    return replace(plan, knowing=knowing(forecaster, plan.chosen))


def knowing(forecaster: Forecaster, choice: Choice | None) -> Knowing | None:
    """Return what measuring one and two nodes would narrow; None if it narrows nothing."""
    if choice is None or choice.price is None or choice.money is None:
        return None
    counts = (1,) if choice.nodes == 1 or not choice.size.infiniband else (1, 2)
    config, size = forecaster.workload.config, choice.size
    expected = [forecaster.choice(size, count, choice.priority).images_per_s for count in counts]
    points = [
        replace(
            throughput.wanted(config, size.name, count, count * size.gpus), rates=(span.middle,)
        )
        for count, span in zip(counts, expected, strict=True)
        if span is not None
    ]
    after = replace(forecaster, points=points).choice(size, choice.nodes, choice.priority)
    if after.money is None or after.money.high - after.money.low >= (
        choice.money.high - choice.money.low
    ):
        return None
    hours = forecaster.assumed.start_minutes / 60 + _MEASURING_HOURS
    return Knowing(choice, after, sum(counts) * hours * choice.price.amount)


def explained(key: str, forecaster: Forecaster) -> list[Choice]:
    """Return the choices of a key such as ND40rs_v2:4, one for each priority.

    Raises:
        ConfigError: There is no such size, or no number of nodes.
    """
    name, _, count = key.partition(":")
    size = vm_sizes.find(name) or vm_sizes.find(f"Standard_{name}")
    if size is None or not size.gpus or not count.isdigit() or int(count) < 1:
        known = ", ".join(
            one.name.removeprefix("Standard_") for one in vm_sizes.deployable(gpu=True)
        )
        raise ConfigError([f"--explain: {key!r} must be SIZE:NODES, with one of {known}"])
    return [forecaster.choice(size, int(count), priority) for priority in _priorities(size)]


def _priorities(size: Size) -> tuple[str, ...]:
    return ("Dedicated", "LowPriority") if size.low_priority else ("Dedicated",)
