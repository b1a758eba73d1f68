"""What is watched: the logs of every service, the workspace's metrics, and what it all costs."""

import pulumi
from pulumi_azure_native import machinelearningservices as ml

from infra.components.alerts import Alerts, AlertsArgs
from infra.components.base import Place
from infra.components.budget import Budget, BudgetArgs
from infra.components.monitoring import ALL, AUDIT, WRITES, Diagnostics, Monitoring, Source
from infra.components.network import Network
from infra.composition.services import Service, Services
from infra.settings import Settings


def declare(
    settings: Settings,
    place: Place,
    group_id: pulumi.Input[str],
    used: Services,
    network: Network | None,
    monitoring: Monitoring,
    workspace: ml.Workspace,
) -> None:
    """Declare diagnostics, alerts and the budget.

    What belongs to someone else gets no diagnostic setting: those are its owner's.
    """
    sources = [
        Source("workspace", workspace.id, (ALL,)),
        *_services(used),
        *_network(network),
        *_logs(monitoring),
    ]
    Diagnostics(place, sources, monitoring.log_id)
    watched = settings.monitoring
    Alerts(
        place,
        AlertsArgs(
            log_workspace=monitoring.log_id,
            workspace_id=workspace.id,
            emails=settings.budget.emails,
            preempted_nodes=watched.preempted_nodes,
            idle_minutes=watched.idle_minutes,
            failed_jobs=watched.failed_jobs,
            quota_percent=watched.quota_percent,
        ),
    )
    budget = settings.budget
    Budget(
        place,
        BudgetArgs(
            group_id=group_id,
            amount=budget.amount,
            start=budget.start,
            emails=budget.emails,
            actual_percent=budget.actual_percent,
            forecast_percent=budget.forecast_percent,
        ),
    )


def _services(used: Services) -> list[Source]:
    found = []
    if used.vault.own:
        found.append(Source("vault", used.vault.id, (ALL,)))
    if used.registry.own:
        found.append(Source("registry", used.registry.id, (ALL,)))
    if used.default_storage.own:
        found.append(_storage("default-blob", used.default_storage, "blobServices"))
        found.append(_storage("default-file", used.default_storage, "fileServices"))
    if used.data_storage.own:
        found.append(_storage("data-blob", used.data_storage, "blobServices"))
    return found


def _storage(label: str, account: Service, service: str) -> Source:
    part = pulumi.Output.concat(account.id, f"/{service}/default")
    return Source(label, part, categories=WRITES, metrics=("Transaction",))


def _network(network: Network | None) -> list[Source]:
    if network is None:
        return []
    return [
        Source("network", network.network.id, (ALL,)),
        Source("nat-address", network.address.id, (ALL,)),
        *(
            # Security groups have logs only.
            Source(f"nsg-{role}", group.id, (ALL,), metrics=())
            for role, group in network.groups.items()
        ),
    ]


def _logs(monitoring: Monitoring) -> list[Source]:
    if monitoring.logs is None:
        return []
    return [Source("logs", monitoring.logs.id, (AUDIT,), metrics=())]
