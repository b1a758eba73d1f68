"""Options of the log in the form of MLPerf. Standard library only."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from trainer.leaf import Leaf


@dataclass(frozen=True)
class MlperfOptions:
    """The log of each attempt as MLPerf Training's rules describe it, for ResNet."""

    log: bool = False
    """Write RUN/mlperf/attempt-1.log and so on."""
    organization: str = "unnamed"
    """Who submits the result."""
    platform: str = "unnamed"
    """Name of the machines."""
    division: Literal["open", "closed"] = "open"
    """Division whose rules the run follows. The rules of the closed one are not enforced here;
    MLCommons' checker checks them."""
    status: Literal["cloud", "onprem", "preview", "research"] = "research"
    """Availability of the machines."""


def _problems(config: Any) -> list[str]:
    options = config.of(MlperfOptions)
    problems = []
    if options.log and config.model.network != "resnet":
        problems.append(
            f"--mlperf.log: is for the network resnet, and not for {config.model.network}"
        )
    if options.log and not (options.organization and options.platform):
        problems.append("--mlperf.organization, --mlperf.platform: must not be empty")
    return problems


LEAF: Final = Leaf(
    key="mlperf",
    options=MlperfOptions,
    on_resume="unreported",
    problems=_problems,
    observer="trainer.mlperf.observer:mlperf_observer",
)
