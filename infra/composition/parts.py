"""The parts of a stack that exist before the leaves declare theirs, and the additions of a leaf."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi_azure_native import machinelearningservices as ml

from infra.components.base import StackContext
from infra.components.monitoring import LogSource, Monitoring
from infra.composition.connectivity import Connectivity
from infra.composition.services import Services
from infra.settings import Settings


@dataclass(frozen=True)
class Platform:
    """The trunk of a stack, to which the leaves add."""

    settings: Settings
    context: StackContext
    group_id: pulumi.Input[str]
    services: Services
    connected: Connectivity
    monitoring: Monitoring
    workspace: ml.Workspace


@dataclass(frozen=True)
class Declared:
    """Resources that a leaf has declared."""

    logs: Sequence[LogSource] = ()
    """Its services that log."""
    outputs: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Values for `PlatformOutputs` that Azure returns, by name."""
    export: Callable[[Mapping[str, str]], Mapping[str, Any]] = lambda _: {}
    """Returns fields of `PlatformOutputs`, from all resolved values."""
