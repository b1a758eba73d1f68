"""Observability: the logs of every service, the workspace's metrics, and the budget."""

from dataclasses import dataclass

import pulumi
from pulumi_azure_native import machinelearningservices as ml

from infra.alert_rules import alert_rules
from infra.components.alerts import Alerts, AlertsArgs
from infra.components.base import StackContext
from infra.components.budget import Budget, BudgetArgs
from infra.components.jump_machine import JumpMachine
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
from infra.composition.services import Service, Services
from infra.settings import Settings


@dataclass(frozen=True)
class Addressed:
    """What has addresses in the network, as far as the stack declares it."""

    network: Network | None
    jump_machine: JumpMachine | None


def declare(
    settings: Settings,
    context: StackContext,
    group_id: pulumi.Input[str],
    services: Services,
    addressed: Addressed,
    monitoring: Monitoring,
    workspace: ml.Workspace,
) -> pulumi.Output[str]:
    """Declare diagnostics, alerts and the budget.

    Existing resources get no diagnostic setting: those are up to their owner.

    Returns:
        Id of the action group that alerts notify.
    """
    sources = [
        LogSource("workspace", workspace.id, (ALL,)),
        *_services(services, reads=settings.monitoring.storage_reads),
        *_network(addressed.network),
        *_bastion(addressed.jump_machine),
        *_logs(monitoring),
    ]
    # The creation of a workspace changes its default account.
    Diagnostics(context, sources, monitoring.log_id, [workspace])
    alerts = Alerts(
        context,
        AlertsArgs(
            log_workspace=monitoring.log_id,
            workspace_id=workspace.id,
            emails=settings.budget.emails,
            rules=alert_rules(settings.monitoring),
        ),
    )
    budget = settings.budget
    Budget(
        context,
        BudgetArgs(
            group_id=group_id,
            amount=budget.amount,
            start=budget.start,
            emails=budget.emails,
            actual_percent=budget.actual_percent,
            forecast_percent=budget.forecast_percent,
        ),
    )
    return alerts.people.id


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


def _bastion(jump_machine: JumpMachine | None) -> list[LogSource]:
    if jump_machine is None or jump_machine.bastion is None or jump_machine.address is None:
        return []
    return [
        LogSource("bastion", jump_machine.bastion.id, (ALL,)),
        LogSource("bastion-address", jump_machine.address.id, (ALL,)),
    ]


def _logs(monitoring: Monitoring) -> list[LogSource]:
    if monitoring.logs is None:
        return []
    return [LogSource("logs", monitoring.logs.id, (AUDIT,), metrics=())]
