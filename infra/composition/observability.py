"""Observability: the logs of every service, and the workspace's metrics."""

from collections.abc import Sequence

import pulumi

from infra.components.base import Service
from infra.components.monitoring import (
    ALL,
    AUDIT,
    READS,
    WRITES,
    Diagnostics,
    LogSource,
    Monitoring,
)
from infra.components.network import Network
from infra.composition.parts import Declared, Platform
from infra.composition.services import Services


def declare(
    platform: Platform, declared: Sequence[Declared], changes: Sequence[pulumi.Resource]
) -> None:
    """Declare the diagnostic settings of all services, of the trunk and of the leaves.

    Existing resources get none: those are up to their owner.

    Args:
        platform: Trunk of the stack.
        declared: Resources of the leaves.
        changes: Other resources that change the accounts, as a setting does. They are named
            although the workspace waits for them: a teardown purges the workspace first, and the
            rest must still be deleted one after the other.
    """
    settings, workspace = platform.settings, platform.workspace
    sources = [
        LogSource("workspace", workspace.id, (ALL,)),
        *_services(platform.services, reads=settings.monitoring.storage_reads),
        *_network(platform.connected.network),
        *(source for one in declared for source in one.logs),
        *_logs(platform.monitoring),
    ]
    # The creation of a workspace changes its default account.
    Diagnostics(platform.context, sources, platform.monitoring.log_id, [workspace, *changes])


def _services(services: Services, *, reads: bool) -> list[LogSource]:
    kept = (*READS, *WRITES) if reads else WRITES
    sources = []
    if services.vault.own:
        sources.append(LogSource("vault", services.vault.id, (ALL,)))
    if services.registry.own:
        sources.append(LogSource("registry", services.registry.id, (ALL,)))
    if services.default_storage.own:
        sources.append(_storage("default-blob", services.default_storage, "blobServices", kept))
        sources.append(_storage("default-file", services.default_storage, "fileServices", kept))
    if services.data_storage.own:
        sources.append(_storage("data-blob", services.data_storage, "blobServices", kept))
    return sources


def _storage(label: str, account: Service, service: str, kept: tuple[str, ...]) -> LogSource:
    part = pulumi.Output.concat(account.id, f"/{service}/default")
    return LogSource(label, part, categories=kept, metrics=("Transaction",), exclusive=True)


def _network(network: Network | None) -> list[LogSource]:
    if network is None:
        return []
    return [
        LogSource("network", network.network.id, (ALL,)),
        *([LogSource("nat-address", network.address.id, (ALL,))] if network.address else []),
        *(
            # Security groups have logs only.
            LogSource(f"nsg-{role}", group.id, (ALL,), metrics=())
            for role, group in network.groups.items()
        ),
    ]


def _logs(monitoring: Monitoring) -> list[LogSource]:
    if monitoring.logs is None:
        return []
    return [LogSource("logs", monitoring.logs.id, (AUDIT,), metrics=())]
