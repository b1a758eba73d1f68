"""`python -m jobs plan`: what a run would take on each choice of nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, Literal

from common.annotations import Bounds
from common.errors import ConfigError
from common.files import write_atomically
from common.page.render import render
from infra.catalog import vm_sizes
from infra.catalog.vm_sizes import Size
from infra.outputs import PlatformOutputs
from jobs import throughput
from jobs.azure import node_prices
from jobs.console import Console
from jobs.estimate.advice import ENDS, Wish, read_deadline
from jobs.estimate.forecast import Assumptions, Choice, Forecaster
from jobs.estimate.published import RESNETS
from jobs.estimate.report import Plan, explanation
from jobs.estimate.workload import IMAGENET_GB, IMAGENET_IMAGES, Workload
from jobs.throughput import Point
from trainer.presets import parse_train

_DEPTHS: Final = {"resnet50": "50", "resnet101": "101", "resnet152": "152"}


@dataclass(frozen=True)
class PlanOptions:
    """Show what a run would take on each VM size, number of nodes and priority: images/s,
    hours and money as ranges, what binds, and on what the figures rest. Nothing is rented or asked
    of Azure, unless a stack is named or `--prices live` is given.
    """

    preset: str = "imagenet-ndv2"
    """Preset of the trainer; options of the trainer may follow after `--`."""

    model: str | None = None
    """resnet50, resnet101 or resnet152 instead of the preset's network."""

    deadline: str | None = None
    """Recommend the cheapest choice that ends within a time such as 2h or 90min."""

    budget: Annotated[float | None, Bounds(above=0)] = None
    """Recommend the fastest choice that costs at most so much, in the currency of the prices."""

    nodes: tuple[int, ...] = (1, 2, 4, 8)
    """Numbers of nodes to compare; with a stack, at most what its clusters have."""

    images: Annotated[int, Bounds(at_least=1)] = IMAGENET_IMAGES
    """Training images of the data set."""

    gigabytes: Annotated[float, Bounds(above=0)] = IMAGENET_GB
    """Size of the data set in GB."""

    hours_between_losses: Annotated[float, Bounds(above=0)] = Assumptions().hours_between_losses
    """Hours that a Spot node is held on average: an assumption, as Azure publishes none."""

    start_minutes: Annotated[float, Bounds(at_least=0)] = Assumptions().start_minutes
    """Minutes from submission, or from a pre-emption, to the first step: an assumption."""

    prices: Literal["recorded", "live"] = "recorded"
    """live: ask Azure's public price list, and store the answer; later plans use it."""

    region: str = "eastus"
    """Azure region of the prices; a stack's own region is used instead."""

    measured: tuple[str, ...] = ()
    """Files of measured points, which are used instead of published ones for their VM size. None
    are, with a stack, its newest ones."""

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
        if problems:
            raise ConfigError(problems)
        if self.deadline is not None:
            read_deadline(self.deadline)

    def check(self, program: tuple[str, ...]) -> None:
        """Check the preset together with the trainer's options.

        Raises:
            ConfigError: They are invalid, or nothing is known about such a run.
        """
        if self.run is None:
            workload_of(self, program)

    @property
    def assumptions(self) -> Assumptions:
        """What the forecasts assume."""
        return replace(
            Assumptions(),
            hours_between_losses=self.hours_between_losses,
            start_minutes=self.start_minutes,
        )

    @property
    def wish(self) -> Wish | None:
        """What a choice is to keep within; None wishes for nothing."""
        if self.deadline is not None:
            return Wish(hours=read_deadline(self.deadline))
        return None if self.budget is None else Wish(money=self.budget)


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
    workload = workload_of(options, program)
    region = outputs.region if outputs else options.region
    workspace = node_prices.of_workspace(outputs, console) if outputs else None
    if options.prices == "live":
        console.note(f"asking {node_prices.LIST} for the prices of {region}")
        sizes = [size.name for size in vm_sizes.deployable(gpu=True)]
        console.note(f"stored: {node_prices.ask(region, sizes)}")
    forecaster = Forecaster(
        workload,
        node_prices.known(region, workspace),
        options.assumptions,
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
    plan = make_plan(forecaster, wanted(options, outputs), options.wish)
    page = Path(options.page).absolute()
    write_atomically(page, render("jobs.estimate", "plan.html", page=plan.page()))
    console.answer(
        {**plan.document(), "page": str(page)}, "\n".join([*plan.lines(), f"\npage: {page}"])
    )
    return 0


def _compare(key: str, outputs: PlatformOutputs | None, console: Console) -> int:
    """Print the estimate of a run and its outcome."""
    # Azure's libraries take seconds to import, and other plans need none.
    from jobs.azure.costs import JobCosts  # noqa: PLC0415
    from jobs.azure.workspace import connect  # noqa: PLC0415
    from jobs.commands.runs.compare import ComparedRun, read_files  # noqa: PLC0415
    from jobs.estimate.outcome import about_run  # noqa: PLC0415

    if outputs is None:
        raise ConfigError(["--run: name the stack of the run with --stack"])
    workspace = connect(outputs)
    files, attempts = read_files(workspace.storage, [key])[key], workspace.jobs.attempts(key)
    cost = JobCosts(workspace.jobs, workspace.manager, outputs.clusters).of(attempts)
    run = ComparedRun(key, files, attempts, list(cost.values()))
    line = about_run(run, outputs)
    told = line or f"{key}: not completed, or nothing is known about such a run"
    console.answer({**run.document(), "estimate": line}, told)
    return 0 if line else 1


def measured(
    options: PlanOptions, outputs: PlatformOutputs | None, console: Console
) -> tuple[Point, ...]:
    """Return the measured points that the options name, or else the newest ones of the stack.

    Raises:
        UserError: A file cannot be read, or has a line that is no point.
    """
    files = [Path(file) for file in options.measured]
    if not files and outputs is not None:
        newest = throughput.newest(Path(throughput.FOLDER), outputs.stack)
        if newest is not None:
            console.note(f"measured points: {newest}")
            files = [newest]
    return tuple(point for file in files for point in throughput.read(file))


def workload_of(options: PlanOptions, program: Sequence[str] = ()) -> Workload:
    """Return the run of the options.

    Raises:
        ConfigError: An option is invalid, or nothing is known about such a run.
    """
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
    return Workload(config, options.images, options.gigabytes)


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
    wish: Wish | None = None,
) -> Plan:
    """Forecast all choices, and choose among them. Pure."""
    choices: list[Choice] = []
    for size, counts, priority in sizes:
        for nodes in sorted(set(counts)):
            choices.append(forecaster.choice(size, nodes, priority))
            if choices[-1].images_per_s is None:
                # More nodes are not known either.
                break
    advice = tuple(wish.advice(choices, end) for end in ENDS) if wish else ()
    return Plan(
        forecaster.workload, tuple(choices), advice, forecaster.assumed, tuple(forecaster.points)
    )


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
