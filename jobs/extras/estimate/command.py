"""`python -m jobs plan`: time and cost of a run on each choice of nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final

from common.annotations import Bounds
from common.errors import ConfigError
from infra.catalog import vm_sizes
from infra.catalog.vm_sizes import Size
from infra.outputs import PlatformOutputs
from jobs import throughput
from jobs.azure import node_prices
from jobs.console import Console
from jobs.extras.estimate.forecast import Assumptions, Estimate, Forecaster
from jobs.extras.estimate.report import Report, Wish, read_deadline
from jobs.extras.estimate.workload import DataSize, Workload
from jobs.options import DataOptions
from jobs.spec.job_spec import MAX_MPI_NODES
from jobs.throughput import Point
from trainer.data.manifest import FILE_NAME, load_manifest
from trainer.presets import parse_train

_DEPTHS: Final = {"resnet50": "50", "resnet101": "101", "resnet152": "152"}
_LAST: Final = "version 0.1.0 was the last with it"
_MANY: Final = f"{_LAST}; multiply the cost of one run by the number of runs"


@dataclass(frozen=True)
class PlanOptions:
    """Show what a run would take on each VM size, number of nodes and priority: hours and cost as
    ranges, by measured rows, and the basis of the figures. Nothing is rented. Azure is asked only
    if a stack is named.
    """

    preset: str = "imagenet-ndv2"
    """Preset of the trainer; options of the trainer may follow after `--`."""

    model: str | None = None
    """resnet50, resnet101 or resnet152 instead of the preset's network."""

    deadline: str | None = None
    """Recommend the cheapest choice that ends within a time such as 90min, 2h or 30d."""

    budget: Annotated[float | None, Bounds(above=0)] = None
    """Recommend the fastest choice that costs at most this amount, in the currency of the
    prices."""

    nodes: tuple[int, ...] = (1, 2, 4, 8)
    """Numbers of nodes to compare, at most 100 as Azure limits a job; with a stack, at most those
    of its clusters."""

    data: str | None = None
    """Data set whose manifest has images, bytes and pixels: a folder with manifest.json or, with a
    stack, NAME:VERSION. None is ImageNet, or the data set of the options below."""

    images: Annotated[int | None, Bounds(at_least=1)] = None
    """Training images of the data set."""

    gigabytes: Annotated[float | None, Bounds(above=0)] = None
    """Size of the data set in GB."""

    pixels: Annotated[float | None, Bounds(above=0)] = None
    """Mean size of an image in megapixels."""

    hours_between_losses: Annotated[float, Bounds(above=0)] = Assumptions().hours_between_losses
    """Hours that a Spot node is held on average: an assumption, as Azure publishes none."""

    start_minutes: Annotated[float, Bounds(at_least=0)] = Assumptions().start_minutes
    """Minutes from submission, or from a pre-emption, to the first step: an assumption."""

    region: str | None = None
    """Azure region of the prices; None is that of the stack or, without one, eastus."""

    measured: tuple[str, ...] = ()
    """Files of measured points, whose rows win over published ones. By default those of
    this machine's GPU and, with a stack, all of its own."""

    explain: str | None = None
    """Print one choice with the rows, sources and dates that it is based on: ND40rs_v2:4."""

    run: str | None = None
    """Key of a completed run of the stack: print its estimate and its outcome instead."""

    GONE: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("runs", "seeds", "trials", "failed", "parallel"), _MANY),
        "platform_month": f"{_LAST}; add the costs of the platform (docs/platform.md)",
        "begin": f"{_LAST}; it was for the cost by month of many runs",
        "page": f"{_LAST}; keep the output of `plan`, or of `plan --json`",
    }

    def __post_init__(self) -> None:
        problems = []
        if self.model is not None and self.model.lower() not in _DEPTHS:
            problems.append(f"--model: {self.model!r} must be one of {', '.join(_DEPTHS)}; name"
                            " another network by options of the trainer after `--`")  # fmt: skip
        if self.deadline is not None and self.budget is not None:
            problems.append("--deadline and --budget: pass one of them")
        if not self.nodes or min(self.nodes) < 1:
            problems.append("--nodes: must be 1 or more")
        elif max(self.nodes) > MAX_MPI_NODES:
            problems.append(f"--nodes: {_too_many(max(self.nodes))}")
        own = [self.images, self.gigabytes, self.pixels]
        if self.data is not None and any(size is not None for size in own):
            problems.append("--data: its manifest has --images, --gigabytes and --pixels")
        if self.data is None and any(size is None for size in own) and set(own) != {None}:
            problems.append("--images, --gigabytes, --pixels: pass all of them, or --data")
        if problems:
            raise ConfigError(problems)
        if self.deadline is not None:
            read_deadline(self.deadline)

    def check(self, program: tuple[str, ...]) -> None:
        """Check the preset together with the trainer's options.

        Raises:
            ConfigError: They are invalid.
        """
        if self.run is None:
            workload_of(self, program, data=DataSize())

    @property
    def wish(self) -> Wish | None:
        """Limit of the run; None without one."""
        if self.deadline is not None:
            return Wish(hours=read_deadline(self.deadline))
        return None if self.budget is None else Wish(amount=self.budget)


def run(
    options: PlanOptions,
    outputs: PlatformOutputs | None,
    *,
    as_json: bool,
    program: tuple[str, ...] = (),
) -> int:
    """Print the plan, one choice of it, or the estimate of a completed run."""
    console = Console(as_json=as_json)
    if options.run is not None:
        return _compare(options.run, outputs, console)
    workload = workload_of(options, program, data=_data_set(options, outputs))
    region = options.region or (outputs.region if outputs else "eastus")
    own = outputs is not None and region == outputs.region
    workspace = node_prices.of_workspace(outputs, console) if outputs and own else None
    forecaster = Forecaster(
        workload,
        node_prices.known(region, workspace),
        Assumptions(options.start_minutes, options.hours_between_losses),
        measured(options.measured, outputs, console),
    )
    if options.explain is not None:
        choices = explained(options.explain, forecaster)
        grounds = [forecaster.grounds(choice) for choice in choices]
        document = [
            {**choice.document(), "grounds": lines}
            for choice, lines in zip(choices, grounds, strict=True)
        ]
        console.answer(document, "\n\n".join("\n  ".join(lines) for lines in grounds))
        return 0
    report = Report(forecaster, choices_of(forecaster, wanted(options, outputs)), options.wish)
    console.answer(report.document(), "\n".join(report.lines()))
    return 0


def _compare(key: str, outputs: PlatformOutputs | None, console: Console) -> int:
    """Print the estimate of a run and its outcome."""
    from jobs.extras.estimate.outcome import about_run, compared_run  # noqa: PLC0415

    if outputs is None:
        raise ConfigError(["--run: name the stack of the run with --stack"])
    run = compared_run(outputs, key)
    line = about_run(run, outputs)
    answer = line or f"{key}: not completed, or nothing is known about such a run"
    console.answer({**run.document(), "estimate": line}, answer)
    return 0 if line else 1


def measured(
    names: Sequence[str] = (),
    outputs: PlatformOutputs | None = None,
    console: Console | None = None,
) -> tuple[Point, ...]:
    """Return the measured points of some files, or else of this machine's GPU and of the stack,
    oldest first.

    Raises:
        UserError: A file cannot be read, or has a line that is not a point.
    """
    files = [Path(name) for name in names]
    if not files:
        folder = Path(throughput.FOLDER)
        files = sorted(folder.glob(f"gpu/{throughput.FILE}"))
        files += sorted(folder.glob(f"{outputs.stack}/*/{throughput.FILE}")) if outputs else []
        if files and console:
            console.note(f"measured points: {', '.join(map(str, files))}")
    points = [point for file in files for point in throughput.read(file)]
    return tuple(sorted(points, key=lambda point: point.at))


def workload_of(
    options: PlanOptions, program: Sequence[str] = (), *, data: DataSize | None = None
) -> Workload:
    """Return the run of the options.

    Args:
        options: Options of the command.
        program: Options of the trainer.
        data: Data set; None is that of the options.

    Raises:
        UserError: An option is invalid, or the data set cannot be read.
    """
    depth = _DEPTHS[options.model.lower()] if options.model else None
    own = ["--model.network", "resnet", "--model.depth", depth] if depth else []
    config = parse_train(["--preset", options.preset, *own, *program])
    return Workload(config, data or _data_set(options, None))


def _data_set(options: PlanOptions, outputs: PlatformOutputs | None) -> DataSize:
    name = options.data
    if name is not None:
        folder = Path(name)
        if (folder / FILE_NAME).is_file():
            return DataSize.of(load_manifest(folder), name)
        if outputs is None or ":" not in name:
            raise ConfigError(
                [f"--data: {name} has no {FILE_NAME}; name a folder that has one or, with --stack,"
                 " a registered data set as NAME:VERSION"]
            )  # fmt: skip
        # Only a plan of a stack needs them, and they import Azure's libraries.
        from jobs.assets import prepared_data  # noqa: PLC0415
        from jobs.azure.workspace import connect  # noqa: PLC0415

        workspace = connect(outputs)
        uri = workspace.manager.data_uri(name)
        manifest = prepared_data.read_manifest(workspace.storage, DataOptions(asset=name), uri)
        return DataSize.of(manifest, name)
    if options.images and options.gigabytes and options.pixels:
        sizes = options.images, options.gigabytes, options.pixels
        return DataSize(*sizes, "as told by --images, --gigabytes, --pixels")
    return DataSize()


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
    sizes = []
    for cluster in outputs.clusters.values():
        size = vm_sizes.find(cluster.size)
        if cluster.duty == "train" and size is not None and size.gpus:
            counts = tuple(count for count in options.nodes if count <= cluster.max_nodes)
            sizes.append((size, counts or (cluster.max_nodes,), str(cluster.priority)))
    if not sizes:
        raise ConfigError([f"--stack: {outputs.stack} has no cluster with GPUs to train on"])
    return sizes


def choices_of(
    forecaster: Forecaster, sizes: Sequence[tuple[Size, tuple[int, ...], str]]
) -> list[Estimate]:
    """Estimate all choices. Pure."""
    choices: list[Estimate] = []
    for size, counts, priority in sizes:
        for nodes in sorted(set(counts)):
            choices.append(forecaster.choice(size, nodes, priority))
            if choices[-1].images_per_s is None and nodes > 1:
                # More nodes are not known either.
                break
    return choices


def explained(key: str, forecaster: Forecaster) -> list[Estimate]:
    """Return the choices of a key such as ND40rs_v2:4, one for each priority.

    Raises:
        ConfigError: There is no such size, no number of nodes, or Azure does not allow it.
    """
    name, _, count = key.partition(":")
    size = vm_sizes.find(name) or vm_sizes.find(f"Standard_{name}")
    if size is None or not size.gpus or not count.isdigit() or int(count) < 1:
        names = [size.name.removeprefix("Standard_") for size in vm_sizes.deployable(gpu=True)]
        raise ConfigError(
            [f"--explain: {key!r} must be SIZE:NODES, with one of {', '.join(names)}"]
        )
    if int(count) > MAX_MPI_NODES:
        raise ConfigError([f"--explain: {_too_many(int(count))}"])
    return [forecaster.choice(size, int(count), priority) for priority in _priorities(size)]


def _too_many(nodes: int) -> str:
    return (
        f"{nodes} nodes, but a run can have at most {MAX_MPI_NODES}: Azure limits MPI jobs to"
        f" {MAX_MPI_NODES} nodes, and clusters with InfiniBand to {vm_sizes.RDMA_POOL_NODES}"
    )


def _priorities(size: Size) -> tuple[str, ...]:
    return ("Dedicated", "LowPriority") if size.low_priority else ("Dedicated",)
