"""The choices of nodes of a run: offered when it is submitted, and kept in the tags of its
attempts, so that every supervisor knows them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from common.errors import ConfigError
from common.prices import NodePrices, money
from common.text import plural
from jobs.azure import clusters
from jobs.azure.costs import known_prices
from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.submission import look_up
from jobs.errors import SpecError
from jobs.extras.elastic.leaf import ElasticOptions
from jobs.extras.elastic.placement_policy import MoveRules, NodeChoice
from jobs.extras.estimate.forecast import expected
from jobs.leaf import PLACED
from jobs.spec.job_spec import JobSpec
from jobs.throughput import words
from trainer.config import TrainConfig

TAG: Final = "choices"
"""Tag of the attempts of a run with its choices and rules, as JSON."""
NUMBER: Final = "choice"
"""Tag with the number of an attempt's choice."""

_SAME: Final = (
    *("environment", "variables", "shm_size", "docker_args", "inputs", "outputs"),
    "gpus_per_process",
)
"""Fields of a job that a further attempt takes from the one before."""


@dataclass(frozen=True)
class Offer:
    """One choice of a run."""

    key: str
    """Name of the cluster in the stack's settings."""
    choice: NodeChoice
    processes: int
    """Processes per node."""
    batch_size: int
    """Images per rank and step, so that the global batch is that of the run."""

    @property
    def name(self) -> str:
        """Such as gpu:4."""
        return f"{self.key}:{self.choice.nodes}"


@dataclass(frozen=True)
class Choices:
    """All choices of a run, the best first, and when it moves between them."""

    rules: MoveRules
    offers: tuple[Offer, ...]

    @property
    def last(self) -> int:
        """Number of the last choice."""
        return len(self.offers) - 1

    def number(self, name: str) -> int:
        """Return the number of a choice such as gpu:4.

        Raises:
            ConfigError: The run has no such choice.
        """
        names = [offer.name for offer in self.offers]
        if name not in names:
            raise ConfigError([f"--on: {name!r} is not a choice of the run: {', '.join(names)}"])
        return names.index(name)

    @property
    def tag(self) -> str:
        """The value of the tag from which `of` reads these choices."""
        offers = [
            [offer.key, offer.choice.cluster, offer.choice.nodes, offer.processes, offer.batch_size]
            for offer in self.offers
        ]
        rules = [self.rules.wait_hours, self.rules.up_hours]
        return json.dumps([rules, offers], separators=(",", ":"))

    @classmethod
    def of(cls, tags: Mapping[str, str]) -> Self | None:
        """Read the choices of a job's run from the tags of the job; None if it has none."""
        try:
            (wait, up), offers = json.loads(tags[TAG])
            read = tuple(
                Offer(str(key), NodeChoice(str(cluster), int(nodes)), int(processes), int(batch))
                for key, cluster, nodes, processes, batch in offers
            )
            return cls(MoveRules(float(wait), float(up)), read) if read else None
        except (KeyError, TypeError, ValueError):
            return None


def offer(
    options: ElasticOptions,
    spec: JobSpec,
    config: TrainConfig | None,
    key: str,
    build: Callable[[str, int, TrainConfig], JobSpec],
) -> tuple[JobSpec, list[JobSpec]]:
    """Return a job with its choices as tags, and the jobs that it may continue as.

    Args:
        options: Which nodes the run may continue on.
        spec: The job.
        config: Configuration of the training; None if it does not train.
        key: Name of its cluster in the stack's settings.
        build: Builds the same job on another cluster, with other nodes and configuration.

    Raises:
        SpecError: The run cannot continue there; lists all reasons.
    """
    keys = [key, *(name for text in options.clusters for name in text.split(",") if name)]
    keys = list(dict.fromkeys(keys))
    if options.min_nodes is None and len(keys) == 1:
        return spec, []
    if config is None or spec.processes_per_node is None:
        raise SpecError(["--min-nodes, --clusters: apply only to a job that trains; omit them"])
    least = spec.nodes if options.min_nodes is None else options.min_nodes
    if least > spec.nodes:
        raise SpecError([f"--min-nodes: {least} is more than --nodes {spec.nodes}"])
    problems: list[str] = []
    specs: list[JobSpec] = []
    offers: list[Offer] = []
    for cluster in keys:
        refused, before = [], len(offers)
        for nodes in _halves(spec.nodes, least):
            named = f"{cluster}, {plural(nodes, 'node')}"
            try:
                other = build(cluster, nodes, config) if offers else spec
                batch = _share(config, spec, other)
                other = build(cluster, nodes, replace(config, batch_size=batch)) if offers else spec
            except (ConfigError, SpecError) as error:
                refused += [(text, f"{named}: {text}") for text in error.problems]
                continue
            problems += [f"{named}: {text}" for text in _other(spec, other)]
            specs.append(other)
            processes = other.processes_per_node or 1
            offers.append(Offer(cluster, NodeChoice(other.cluster.name, nodes), processes, batch))
        # A smaller cluster is asked for as many nodes as it has.
        small = len(offers) > before and all(text.startswith("--nodes:") for text, _ in refused)
        problems += [] if small else [text for _, text in refused]
    if problems:
        raise SpecError(problems)
    rules = MoveRules(round(options.move_down_minutes / 60, 6), options.move_up_hours)
    tags = {
        TAG: Choices(rules, tuple(offers)).tag,
        NUMBER: "0",
        PLACED: f"{offers[0].name}, as asked",
    }
    return replace(spec, tags={**spec.tags, **tags}), specs[1:]


def check(
    manager: ResourceManager, spec: JobSpec, others: Sequence[JobSpec], config: TrainConfig
) -> Iterator[str]:
    """Check limits and quotas of all choices before a job is submitted, and say what each is.

    Raises:
        SpecError: A cluster or the quota does not allow a choice; lists all reasons.
        RequestError: Azure did not answer.
    """
    problems: list[str] = []
    for job in (spec, *others):
        try:
            if job is not spec:
                look_up(manager, job)
        except SpecError as error:
            problems += error.problems
            continue
        nodes = clusters.read_nodes(manager.get(f"computes/{segment(job.cluster.name)}"))
        missing = clusters.missing_cores(manager, nodes, job.nodes) or []
        problems += [
            f"{plural(job.nodes, 'node')} of {job.cluster.name}: {text}" for text in missing
        ]
    if problems:
        raise SpecError(problems)
    prices = known_prices(manager)
    yield "choices, the best first; the run moves between them by itself:"
    for job in (spec, *others):
        yield f"  {plural(job.nodes, 'node')} of {job.cluster}: {_estimate(job, config, prices)}"


def _halves(nodes: int, least: int) -> Iterator[int]:
    while nodes >= least and nodes:
        yield nodes
        nodes //= 2


def _share(config: TrainConfig, spec: JobSpec, other: JobSpec) -> int:
    """Return the batch size with which one job has the global batch of another.

    Raises:
        SpecError: The ranks of the job do not divide it.
    """
    batches = config.strategy.batches
    whole, count = config.batch_size * batches(spec.ranks), batches(other.ranks)
    if whole % count:
        raise SpecError(
            [
                f"its {other.ranks} ranks do not divide the global batch of {whole} images; choose"
                " --nodes and --batch-size so that they do"
            ]
        )
    return whole // count


def _other(spec: JobSpec, other: JobSpec) -> list[str]:
    """Return why a further attempt of one job cannot run as another."""
    problems = [
        f"its {name.replace('_', ' ')} differs from that of {spec.cluster.name}, and an attempt"
        " keeps it; choose a cluster of the same kind"
        for name in _SAME
        if getattr(spec, name) != getattr(other, name)
    ]
    if other.cluster.identity_client_id != spec.cluster.identity_client_id:
        problems.append("its jobs act as another identity")
    if other.timeout_seconds < spec.timeout_seconds:
        hours = other.timeout_seconds / 3600
        problems.append(f"its jobs end after {hours:g} hours; pass --timeout-hours {hours:g}")
    return problems


def _estimate(spec: JobSpec, config: TrainConfig, prices: NodePrices) -> str:
    """Return throughput and price of a choice in words, where they are known."""
    cluster = spec.cluster
    forecast = expected(config, cluster, spec.nodes, spec.tags.get("data", ""))
    speed = forecast.images_per_s
    estimate = words(speed, "images/s") if speed else f"images/s unknown, {forecast.reason}"
    price = prices.find(cluster.size, cluster.priority)
    most = prices.highest(cluster.size, cluster.priority)
    if price is not None:
        cost = f"{money(price.amount * spec.nodes, price.currency)} an hour"
        if most is not None and most.amount > price.amount:
            cost += f", up to {money(most.amount * spec.nodes, most.currency)}"
        estimate += f"; {cost}"
    return estimate
