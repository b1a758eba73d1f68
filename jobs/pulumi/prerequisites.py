"""Questions to Azure before a stack is deployed: what only Azure knows, and a failure in the middle
of a deployment would otherwise tell.

A question that the user may not ask, as with rights on one resource group only, is not a problem:
its check says that it was not asked.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from common.errors import UserError
from infra import prerequisites
from infra.prerequisites import GlobalName, Month, Prerequisites
from jobs.azure.clusters import read_sizes
from jobs.azure.requests import Requests, segment
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.sign_in import credential
from jobs.errors import AccessError, MissingError
from jobs.pulumi.cli import Pulumi
from jobs.pulumi.existing import look_up
from jobs.pulumi.state import StackResource

NOT_ASKED: Final = "not asked"
"""First words of the finding if the user may not ask."""
SUBSCRIPTIONS: Final = "2022-12-01"
"""API version of subscriptions and their regions."""
VERSIONS: Final = {
    "Microsoft.Storage/storageAccounts": "2023-05-01",
    "Microsoft.ContainerRegistry/registries": "2023-07-01",
    "Microsoft.KeyVault/vaults": "2026-02-01",
}
"""API version by type of the resources with globally unique names."""
_DECLARED: Final = {
    "azure-native:storage:StorageAccount",
    "azure-native:containerregistry:Registry",
    "azure-native:keyvault:Vault",
}
_IDENTITY: Final = "azure-native:managedidentity:UserAssignedIdentity"
"""Type of resources that every stack has, in its own group."""
_VAULT: Final = "Microsoft.KeyVault/vaults"
_MONTHS_AHEAD: Final = 12
"""Months that something may begin ahead (Azure Cost Management, budgets)."""


@dataclass(frozen=True)
class Check:
    """Result of one check."""

    name: str
    good: bool | None
    """None if Azure does not tell."""
    text: str
    """The finding, or the remedy."""


def check(name: str, ask: Callable[[], str]) -> Check:
    """Return the finding of a question; its error is the remedy."""
    try:
        return Check(name, good=True, text=ask())
    except UserError as error:
        return Check(name, good=False, text=str(error))


def _if_allowed(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except AccessError as error:
        return f"{NOT_ASKED}: {str(error).splitlines()[0]}"


def of_stack(pulumi: Pulumi) -> Prerequisites:
    """Read the prerequisites of a stack in Azure, from its configuration.

    Raises:
        SettingsError: With every problem of the configuration.
        PlatformReadError: The configuration cannot be read.
    """
    name = pulumi.stack.rpartition("/")[2]
    return prerequisites.read(pulumi.configuration(), name)


def look(needs: Prerequisites, state: Sequence[StackResource]) -> Iterator[Check]:
    """Check the prerequisites of a stack in Azure, beginning with those that the others depend
    on.
    """
    requests = Requests(needs, credential(needs.tenant_id))
    manager = ResourceManager(requests, needs)
    pinned = check(
        "subscription",
        lambda: f"{_subscription(manager, needs, state)}, {requests.user_words()}",
    )
    yield pinned
    if not pinned.good:
        return
    questions: dict[str, Callable[[], str]] = {
        "region": lambda: _region(manager, needs),
        "sizes": lambda: _sizes(manager, needs),
        "names": lambda: _names(manager, needs, state),
        **{begin.check: partial(_beginning, manager, begin, state) for begin in needs.beginnings},
    }
    for name, ask in questions.items():
        yield check(name, partial(_if_allowed, ask))
    deployed = any(resource.kind == _IDENTITY for resource in state)
    for name in dict.fromkeys(need.check for need in needs.existing):
        rows = [need for need in needs.existing if need.check == name]
        yield check(name, partial(look_up, manager, rows, deployed=deployed))


def enabled(manager: ResourceManager) -> str:
    """Return the name of the subscription.

    Raises:
        MissingError: The user does not see it.
        UserError: It is not enabled.
    """
    subscription = manager.get(manager.subscription_id, SUBSCRIPTIONS)
    id_ = manager.subscription_id.rpartition("/")[2]
    state = subscription.get("state")
    if state not in (None, "Enabled", "Warned"):
        raise UserError(f"subscription {id_} is {state}; its owner has to enable it in the portal")
    return str(subscription.get("displayName") or id_)


def _subscription(
    manager: ResourceManager, needs: Prerequisites, state: Sequence[StackResource]
) -> str:
    for resource in state:
        group = resource.id.partition("/providers/")[0]
        if resource.kind == _IDENTITY and group.lower() != manager.group_id.lower():
            raise UserError(
                f"the settings place stack {needs.stack} in {manager.group_id}, but it is deployed"
                f" in {group}; a deployed stack cannot move: restore subscription.id, prefix and"
                " resource_group, or tear it down first"
            )
    try:
        return enabled(manager)
    except MissingError:
        seen = [
            f"{item.get('displayName') or ''} {item['subscriptionId']}".strip()
            for item in manager.items("/subscriptions", SUBSCRIPTIONS)
        ]
        raise UserError(
            f"stack {needs.stack} belongs to subscription {needs.subscription_id}, but"
            f" {manager.user() or 'the signed-in user'} sees only {', '.join(seen) or 'none'}; sign"
            f" in as a user with a role there, or run `make configure STACK={needs.stack}`"
        ) from None


def _region(manager: ResourceManager, needs: Prerequisites) -> str:
    offered = manager.items(f"{manager.subscription_id}/locations", SUBSCRIPTIONS)
    regions = {str(region["name"]): region for region in offered}
    named = {"location": (needs.region,), **needs.other_regions}
    unknown = [
        f"{setting}: this subscription has no region {name!r}{_nearest(name, regions)}"
        for setting, names in named.items()
        for name in names
        if name not in regions
    ]
    if unknown:
        raise UserError("\n".join(unknown))
    region = regions[needs.region]
    if needs.zonal and not region.get("availabilityZoneMappings"):
        raise UserError(
            f"{', '.join(needs.zonal)}: {needs.region} has no availability zones; choose a region"
            " with zones, or switch this off"
        )
    return needs.region + (", with availability zones" if needs.zonal else "")


def _nearest(name: str, regions: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, regions, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(sorted(regions))}"


def _sizes(manager: ResourceManager, needs: Prerequisites) -> str:
    answer: Any = manager.get(f"{manager.location_id}/vmSizes")
    sizes = read_sizes(answer)
    missing = []
    for key, (size, priority) in needs.sizes.items():
        offered = sizes.get(size.lower())
        if offered is None:
            missing.append(f"{key}: {size} is not offered in {needs.region}")
        elif priority == "LowPriority" and not offered.low_priority:
            missing.append(f"{key}: {size} has no Spot nodes (tier low_priority) in {needs.region}")
    if missing:
        raise UserError("\n".join([*missing, "choose another size or region"]))
    return ", ".join(sorted({size for size, _ in needs.sizes.values()}))


def _names(manager: ResourceManager, needs: Prerequisites, state: Sequence[StackResource]) -> str:
    own = {resource.name: resource.id for resource in state if resource.kind in _DECLARED}
    free, problems = [], []
    for name in needs.names:
        if name.resource in own:
            free.append(f"{own[name.resource].rpartition('/')[2]} is the stack's")
        elif (problem := _taken(manager, needs, name)) is not None:
            problems.append(problem)
        else:
            free.append(f"{name.name} is free")
    if problems:
        raise UserError("\n".join(problems))
    return ", ".join(free)


def _taken(manager: ResourceManager, needs: Prerequisites, name: GlobalName) -> str | None:
    """Return why a resource of this name cannot be created; None if it can."""
    version, other = VERSIONS[name.kind], _other_names(needs)
    if name.kind == _VAULT:
        deleted = _deleted_vault(manager, needs, name.name)
        if deleted is not None:
            return deleted
    provider = name.kind.partition("/")[0]
    answer: Any = manager.post(
        f"{manager.subscription_id}/providers/{provider}/checkNameAvailability",
        {"name": name.name, "type": name.kind},
        version,
    )
    if answer.get("nameAvailable"):
        return None
    ours = f"{manager.group_id}/providers/{name.kind}/{name.name}"
    try:
        manager.get(ours, version)
    except (MissingError, AccessError):
        return (
            f"{name.kind} {name.name}: the name is taken outside of the stack"
            f" ({answer.get('message') or answer.get('reason')}); {other}"
        )
    return (
        f"{name.kind} {name.name}: exists in the stack's group, but Pulumi does not know it; if"
        f" nothing uses it, delete it (az resource delete --ids {ours}), or {other}"
    )


def _deleted_vault(manager: ResourceManager, needs: Prerequisites, name: str) -> str | None:
    region = f"{manager.subscription_id}/providers/Microsoft.KeyVault/locations/{needs.region}"
    try:
        answer: Any = manager.get(f"{region}/deletedVaults/{segment(name)}", VERSIONS[_VAULT])
    except (MissingError, AccessError):
        return None
    vault, other = answer["properties"], _other_names(needs)
    until = str(vault.get("scheduledPurgeDate") or "the end of its retention")[:10]
    cure = f"purge it (az keyvault purge --name {name} --location {needs.region}), or {other}"
    if vault.get("purgeProtectionEnabled"):
        cure = f"it has purge protection, so wait until {until}, or {other}"
    return (
        f"{_VAULT} {name}: was deleted and holds its name; to use it again, recover it (az keyvault"
        f" recover --name {name}) and take it over with pulumi import; otherwise {cure}"
    )


def _other_names(needs: Prerequisites) -> str:
    until = ", before the owner assigns roles" if needs.roles_of_owner else ""
    return f"choose other names: pulumi config set name_seed TEXT --stack {needs.stack}{until}"


def _beginning(manager: ResourceManager, begin: Month, state: Sequence[StackResource]) -> str:
    if any(resource.kind == begin.resource for resource in state):
        return "exists"
    now = manager.now()
    year, month, _ = map(int, begin.day.split("-"))
    ahead = (year - now.year) * 12 + month - now.month
    if not 0 <= ahead <= _MONTHS_AHEAD:
        raise UserError(
            f"{begin.setting}: {begin.day} is {'past' if ahead < 0 else 'too far ahead'};"
            f" Azure accepts {now:%Y-%m}-01 or the first of one of the next {_MONTHS_AHEAD} months"
        )
    return f"begins {begin.day}"
