"""`python -m jobs backend`: a place for Pulumi's state, and identities for the workflows.

Through Resource Manager only. A resource that exists as it should be stays as it is, so the command
can be repeated at any time.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from common.annotations import Pattern
from common.errors import ConfigError, UserError
from common.waiting import wait_until
from infra import prerequisites
from infra.prerequisites import Prerequisites
from jobs.azure.requests import Requests
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.sign_in import credential, object_id
from jobs.console import Console, ask
from jobs.errors import RequestError
from jobs.extras.pipelines import declaration
from jobs.extras.pipelines.declaration import WORKFLOWS, Redundancy, StateNames, WantedResource
from jobs.options import SelfChecked

_READY_SECONDS: Final = 300
"""Seconds that Azure may take to create an account or a vault."""
_UNKNOWN: Final = (
    "the directory does not know the id. Check --deployers, which takes object ids of people and"
    " groups of the stack's tenant, as `az ad user show --id NAME --query id` and `az ad group show"
    " --group NAME --query id` print them, and run the same command again; a new group is known"
    " after some minutes"
)
_PAUSE_SECONDS: Final = 5.0
_READY: Final = (None, "Succeeded")
_COST: Final = (
    "cost: less than 1 USD a month, for some megabytes of blobs and some thousand operations on"
    " blobs and the key; nothing here is billed by the hour"
)

_GUID: Final = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_Guid = Annotated[str | None, Pattern(_GUID, "a GUID")]
_Repository = Annotated[
    str | None,
    Pattern(
        r"[\w.-]+(@\d+)?/[\w.-]+(@\d+)?",
        "ORGANISATION/REPOSITORY, or ORGANISATION@ID/REPOSITORY@ID",
    ),
]


@dataclass(frozen=True)
class BackendOptions(SelfChecked):
    """Set up a storage account for Pulumi's state, with a key vault for its secrets, after showing
    what is created and what it costs. With --repository also the identities with which the
    workflows of a repository on GitHub sign in, with their roles. Run it again at any time: what
    exists stays.
    """

    repository: _Repository = None
    """Repository on GitHub: ORGANISATION/REPOSITORY, or ORGANISATION@ID/REPOSITORY@ID if its tokens
    have immutable subjects."""

    deployers: tuple[str, ...] = ()
    """Object ids of people or Entra groups who deploy, in addition to the user of this command."""

    redundancy: Redundancy = "GRS"
    """Copies of the state: LRS in one place, ZRS in the zones of the region, GRS also in a second
    region, which not every region has."""

    subscription: _Guid = None
    """Id of the subscription; None is that of the stack's settings."""

    tenant: _Guid = None
    """Id of its tenant; None is that of the stack's settings."""

    yes: bool = False
    """Do not ask for confirmation."""

    def problems(self) -> list[str]:
        """Return which ids of people and groups are invalid."""
        return [
            f"--deployers: {guid!r} must be a GUID"
            for guid in self.deployers
            if not re.fullmatch(_GUID, guid)
        ]


def run(options: BackendOptions, *, as_json: bool, stack: str | None) -> int:
    """Create the resources that are missing.

    Raises:
        UserError: The settings are wrong, the user did not confirm, or Azure refuses a request.
    """
    console, name = Console(as_json=as_json), stack or "dev"
    needs = _read(options, name)
    names = StateNames(needs.prefix, needs.subscription_id)
    sign_in = credential(needs.tenant_id)
    requests = Requests(needs, sign_in)
    with requests.errors("sign-in"):
        me = object_id(sign_in, f"{requests.manager_url}/.default")
    people = {me: f"{requests.user()}", **{guid: guid for guid in options.deployers}}
    state = declaration.state(names, needs, options.redundancy)
    for principal, who in people.items():
        state += declaration.state_roles(names, principal, who, writes=True)
    identities = {
        purpose: declaration.identity(purpose, options.repository or "", names, needs)
        for purpose in (WORKFLOWS if options.repository else ())
    }
    console.say(
        f"in {needs.region}, subscription {needs.subscription_id}, group {needs.prefix}-state-rg,"
        " unless they exist:"
    )
    planned = [*state]
    for purpose, resources in identities.items():
        planned += [*resources, *declaration.identity_roles(purpose, "", names, needs)]
    for resource in planned:
        console.say(f"  - {resource.words}")
    console.say(_COST)
    if not options.yes:
        ask("create them? [y/N] ", ["y", "Y", "yes", "Yes"], "backend", "nothing was created")
    maker = _Maker(ResourceManager(requests, needs), console)
    for resource in state:
        maker.make(resource)
    clients, principals = {}, {}
    for purpose, resources in identities.items():
        identity, *_ = [maker.make(resource)["properties"] for resource in resources]
        clients[purpose], principals[purpose] = identity["clientId"], identity["principalId"]
        for role in declaration.identity_roles(purpose, principals[purpose], names, needs):
            maker.make(role)
    variables = _variables(needs, names, clients) if clients else {}
    document = {
        "backend": names.backend,
        "secrets_provider": names.secrets_provider,
        "created": maker.created,
        "variables": variables,
        "principals": principals,
    }
    console.answer(document, _next_steps(needs, names, variables, principals))
    return 0


def _read(options: BackendOptions, stack: str) -> Prerequisites:
    """Read the stack's settings, without Pulumi: before this command it has no place for a stack.

    PULUMI_OPTION_CONFIG_FILE names another file of settings, as it does for Pulumi.
    """
    file = os.environ.get("PULUMI_OPTION_CONFIG_FILE")
    given = {"id": options.subscription, "tenant": options.tenant}
    try:
        return prerequisites.read_file(
            stack,
            Path(file) if file else None,
            {name: value for name, value in given.items() if value is not None},
        )
    except ValueError as error:
        raise ConfigError([f"--stack: {error}"]) from error
    except UserError as error:
        if "subscription." not in str(error):
            raise
        raise ConfigError(
            [
                f"stack {stack}: its file names no subscription; `make configure STACK={stack}`"
                " writes that of `az login`, or pass --subscription $(az account show --query id"
                " --output tsv) --tenant $(az account show --query tenantId --output tsv)"
            ]
        ) from error


class _Maker:
    """Creates resources, unless they exist as they should be."""

    def __init__(self, manager: ResourceManager, console: Console) -> None:
        self._manager, self._console = manager, console
        self.created: list[str] = []
        """Ids of the resources that were created or changed."""

    def make(self, resource: WantedResource) -> Any:
        """Create a resource, and return it as Azure shows it.

        Raises:
            RequestError: Azure refuses it; the resources that were created before stay.
        """
        existing = self._manager.find(resource.id, resource.api_version)
        if existing is not None and declaration.holds(existing, resource.body):
            return existing
        try:
            self._manager.put(resource.id, resource.body, resource.api_version)
        except RequestError as error:
            if "RoleAssignmentExists" in str(error):
                # Under another name.
                return existing
            if "PrincipalNotFound" in str(error):
                raise RequestError(f"{error}\n{resource.words}: {_UNKNOWN}") from error
            raise
        self.created.append(resource.id)
        self._console.note(f"created: {resource.words}")

        def ready() -> Any:
            shown: Mapping[str, Any] = self._manager.find(resource.id, resource.api_version) or {}
            state = (shown.get("properties") or {}).get("provisioningState")
            return shown if state in _READY else None

        # A later read may not find a new resource, so this one is used.
        shown = wait_until(ready, _READY_SECONDS, _PAUSE_SECONDS)
        if not shown:
            raise RequestError(
                f"{resource.id}: is not ready after {_READY_SECONDS} s; run the same command again"
            )
        return shown


def _variables(
    needs: Prerequisites, names: StateNames, clients: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of the repository on GitHub; none of them is a secret."""
    return {
        "PULUMI_BACKEND_URL": names.backend,
        "AZURE_TENANT_ID": needs.tenant_id,
        "AZURE_SUBSCRIPTION_ID": needs.subscription_id,
        "STACK": needs.stack,
        **{f"{purpose.upper()}_CLIENT_ID": client for purpose, client in clients.items()},
    }


def _next_steps(
    needs: Prerequisites,
    names: StateNames,
    variables: Mapping[str, str],
    principals: Mapping[str, str],
) -> str:
    lines = [
        "Pulumi's state has its place. New roles take up to 10 minutes to have an effect. Then:",
        f"  pulumi login '{names.backend}'",
        f"  AZURE_KEYVAULT_AUTH_VIA_CLI=true pulumi stack init {needs.stack} --secrets-provider"
        f" '{names.secrets_provider}'",
        f"and commit Pulumi.{needs.stack}.yaml, which then names the key.",
    ]
    if variables:
        purposes = ", ".join(workflows.about for workflows in WORKFLOWS.values())
        lines += [
            f"The identities of the workflows, for {purposes}, exist. Set the variables of the"
            " repository, none of which is a secret:",
            *(f"  gh variable set {name} --body '{value}'" for name, value in variables.items()),
            f"protect the environment {needs.stack} with a reviewer, and let people.scientists"
            " submit from a workflow:",
            f"  az ad group member add --group GROUP --member-id {principals['jobs']}",
        ]
    return "\n".join(lines)
