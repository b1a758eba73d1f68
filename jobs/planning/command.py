"""`python -m jobs plan`: what a training would take on each choice of nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, Literal

from common.annotations import Bounds
from common.errors import ConfigError
from common.prices import NodeKind, Price
from infra.catalog import vm_sizes
from infra.catalog.vm_sizes import Size
from infra.outputs import PlatformOutputs
from jobs.console import Console
from jobs.errors import RequestError
from jobs.planning import page as pages
from jobs.planning import points, prices, recommendation
from jobs.planning.back_test import published
from jobs.planning.forecast import Assumptions, Choice, Forecaster
from jobs.planning.recommendation import ENDS
from jobs.planning.report import Plan, explanation, lines, page_of
from jobs.planning.throughput import Throughput
from jobs.planning.workload import IMAGENET_GB, IMAGENET_IMAGES, Workload, read_workload
from trainer.presets import parse_train

_NETWORK: Final = {"resnet50": 50, "resnet101": 101, "resnet152": 152}


@dataclass(frozen=True)
class PlanOptions:
    """Show what a training would take on each VM size, number of nodes and priority: images/s,
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
    """Hours that a low-priority node is held on average: an assumption, as Azure publishes none."""

    start_minutes: Annotated[float, Bounds(at_least=0)] = Assumptions().start_minutes
    """Minutes from submission, or from a pre-emption, to the first step: an assumption."""

    prices: Literal["recorded", "live"] = "recorded"
    """live: ask Azure's public price list, and store the answer; later plans use it."""

    region: str = "eastus"
    """Azure region of the prices; a stack's own region is used instead."""

    measured: tuple[str, ...] = ()
    """Files of measured points, which are used instead of published ones for their VM size. None
    are, with a stack, those of its newest `scaling`."""

    explain: str | None = None
    """Print one choice with the formula, source and date of every number: ND40rs_v2:4."""

    page: str = "build/plan.html"
    """HTML page to write."""

    def __post_init__(self) -> None:
        problems = []
        if self.model is not None and self.model.lower() not in _NETWORK:
            problems.append(
                f"--model: throughput of {self.model!r} was not measured, only of"
                f" {', '.join(_NETWORK)}; `python -m jobs scaling` measures it"
            )
        if self.deadline is not None and self.budget is not None:
            problems.append("--deadline and --budget: pass one of them")
        if not self.nodes or min(self.nodes) < 1:
            problems.append("--nodes: must be 1 or more")
        if problems:
            raise ConfigError(problems)
        if self.deadline is not None:
            recommendation.read_deadline(self.deadline)

    @property
    def assumptions(self) -> Assumptions:
        """What the forecasts assume."""
        return replace(
            Assumptions(),
            hours_between_losses=self.hours_between_losses,
            start_minutes=self.start_minutes,
        )


def run(
    options: PlanOptions,
    outputs: PlatformOutputs | None,
    *,
    as_json: bool,
    program: tuple[str, ...] = (),
) -> int:
    """Print the plan, or one choice of it, and write its page."""
    console = Console(as_json=as_json)
    workload = workload_of(options, program)
    region = outputs.region if outputs else options.region
    workspace = workspace_prices(outputs, console) if outputs else None
    if options.prices == "live":
        console.note(f"asking {prices.LIST} for the prices of {region}")
        sizes = [size.name for size in vm_sizes.deployable(gpu=True)]
        console.note(f"stored: {prices.ask(region, sizes)}")
    found = measured(options, outputs, console)
    fit, ranges = published()
    forecaster = Forecaster(
        workload,
        Throughput(workload, fit, ranges, found),
        prices.known(region, workspace),
        options.assumptions,
    )
    if options.explain is not None:
        choices = explained(options.explain, forecaster)
        document = [
            {**choice.document(), "grounds": [vars(ground) for ground in choice.grounds]}
            for choice in choices
        ]
        console.answer(document, "\n\n".join(map(explanation, choices)))
        return 0
    plan = make_plan(options, workload, forecaster, wanted(options, outputs), found)
    page = pages.write(Path(options.page).absolute(), page_of(plan))
    console.answer(
        {**plan.document(), "page": str(page)}, "\n".join([*lines(plan), f"\npage: {page}"])
    )
    return 0


def measured(
    options: PlanOptions, outputs: PlatformOutputs | None, console: Console
) -> tuple[points.Point, ...]:
    """Return the measured points that the options name, or else those of the stack's newest sweep.

    Raises:
        UserError: A file cannot be read, or has a line that is no point.
    """
    files = [Path(file) for file in options.measured]
    if not files and outputs is not None:
        newest = points.newest(Path(points.SWEEPS), outputs.stack)
        if newest is not None:
            console.note(f"measured points: {newest}")
            files = [newest]
    return tuple(point for file in files for point in points.read(file))


def workload_of(options: PlanOptions, program: Sequence[str] = ()) -> Workload:
    """Return the training of the options.

    Raises:
        ConfigError: An option is invalid, or nothing is known about such a training.
    """
    depth = _NETWORK[options.model.lower()] if options.model else None
    own = ["--model.network", "resnet", "--model.depth", str(depth)] if depth else []
    config = parse_train(["--preset", options.preset, *own, *program])
    return read_workload(config, options.images, options.gigabytes)


def wanted(
    options: PlanOptions, outputs: PlatformOutputs | None
) -> list[tuple[Size, tuple[int, ...], str]]:
    """Return the sizes to compare, each with numbers of nodes and a priority.

    With a stack: its clusters that train on GPUs. Otherwise: the sizes that can be deployed, with
    low priority where Azure documents that it offers it.
    """
    if outputs is None:
        return [
            (size, options.nodes, priority)
            for size in vm_sizes.deployable(gpu=True)
            for priority in (("Dedicated", "LowPriority") if size.low_priority else ("Dedicated",))
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
    options: PlanOptions,
    workload: Workload,
    forecaster: Forecaster,
    sizes: Sequence[tuple[Size, tuple[int, ...], str]],
    found: Sequence[points.Point] = (),
) -> Plan:
    """Forecast all choices, and choose among them. Pure."""
    choices: list[Choice] = []
    for size, counts, priority in sizes:
        for nodes in sorted(set(counts)):
            choices.append(forecaster.choice(size, nodes, priority))
            if choices[-1].images_per_s is None:
                # More nodes are not known either.
                break
    wish, advice = "", []
    if options.deadline is not None:
        hours = recommendation.read_deadline(options.deadline)
        wish = f"cheapest within {hours:g} h"
        advice = [recommendation.within_deadline(choices, hours, end) for end in ENDS]
    elif options.budget is not None:
        wish = f"fastest within {options.budget:,.2f}"
        advice = [recommendation.within_budget(choices, options.budget, end) for end in ENDS]
    return Plan(workload, tuple(choices), tuple(advice), wish, options.assumptions, tuple(found))


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
    priorities = ("Dedicated", "LowPriority") if size.low_priority else ("Dedicated",)
    return [forecaster.choice(size, int(count), priority) for priority in priorities]


def workspace_prices(outputs: PlatformOutputs, console: Console) -> Mapping[NodeKind, Price] | None:
    """Ask Azure for the prices of the stack's region; None, with a note, if it does not answer."""
    # Azure's libraries take seconds to import, and a plan without a stack needs none.
    from jobs.azure.costs import read_prices  # noqa: PLC0415
    from jobs.azure.workspace import connect  # noqa: PLC0415

    try:
        return read_prices(connect(outputs).manager).sources[0]
    except RequestError as error:
        console.note(f"prices of the workspace are not known: {str(error).splitlines()[0]}")
        return None
