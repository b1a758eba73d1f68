"""Reads the answers of an Azure at an address with Microsoft's client for Python.

It prints a line for each operation: its name, and what went wrong, if anything.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from azure.core.credentials import AccessToken
from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.mgmt.machinelearningservices import MachineLearningServicesMgmtClient

FACTS = json.loads(sys.argv[1])
GROUP, WORKSPACE, CLUSTER = FACTS["group"], FACTS["workspace"], FACTS["cluster"]


class Credential:
    """Has a token."""

    def get_token(self, *_: str, **__: Any) -> AccessToken:
        """Return the token."""
        return AccessToken(FACTS["token"], int(time.time()) + 3600)


def check(operation: str, ask: Callable[[], Any], holds: Callable[[Any], Any]) -> None:
    """Ask, and print what went wrong."""
    problem = ""
    try:
        answer = ask()
        if not holds(answer):
            problem = f"unexpected: {answer}"
    except HttpResponseError as error:
        problem = f"{error.status_code} {error.error and error.error.code}"
    except (AzureError, AttributeError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
    print(json.dumps({"operation": operation, "problem": problem}))


def names(pages: Iterable[Any]) -> list[str]:
    """Return the names of everything in a paged answer."""
    return [item.name for item in pages]


def is_missing(name: str) -> bool:
    """Return whether a compute does not exist."""
    try:
        computes.get(GROUP, WORKSPACE, name)
    except ResourceNotFoundError:
        return True
    return False


client = MachineLearningServicesMgmtClient(
    Credential(),
    FACTS["subscription"],
    base_url=FACTS["address"],
    credential_scopes=[f"{FACTS['address']}/.default"],
    polling_interval=0.05,
    retry_total=0,
)
workspaces, computes = client.workspaces, client.machine_learning_compute

check(
    "workspaces.list_by_subscription",
    lambda: names(workspaces.list_by_subscription()),
    lambda listed: WORKSPACE in listed,
)
check(
    "workspaces.list_by_resource_group",
    lambda: names(workspaces.list_by_resource_group(GROUP)),
    lambda listed: WORKSPACE in listed,
)
check(
    "workspaces.get",
    lambda: workspaces.get(GROUP, WORKSPACE),
    lambda resource: resource.storage_account and resource.provisioning_state == "Succeeded",
)
check(
    "machine_learning_compute.list_by_workspace",
    lambda: names(computes.list_by_workspace(GROUP, WORKSPACE)),
    lambda listed: CLUSTER in listed,
)
check(
    "machine_learning_compute.get",
    lambda: computes.get(GROUP, WORKSPACE, CLUSTER),
    lambda resource: resource.properties.properties.vm_size == FACTS["size"],
)
check(
    "machine_learning_compute.list_nodes",
    lambda: list(computes.list_nodes(GROUP, WORKSPACE, CLUSTER)),
    lambda listed: listed == [],
)
check(
    "machine_learning_compute.begin_create_or_update",
    lambda: computes.begin_create_or_update(
        GROUP,
        WORKSPACE,
        "another",
        {
            "location": "westeurope",
            "properties": {
                "computeType": "AmlCompute",
                "properties": {"vmSize": FACTS["size"], "scaleSettings": {"maxNodeCount": 1}},
            },
        },
    ).result(60),
    lambda resource: (
        resource.name == "another" and resource.properties.provisioning_state == "Succeeded"
    ),
)
check(
    "machine_learning_compute.begin_delete",
    lambda: computes.begin_delete(GROUP, WORKSPACE, "another", "Delete").result(60),
    lambda _: is_missing("another"),
)
check(
    "usages.list",
    lambda: list(client.usages.list("westeurope")),
    lambda listed: listed and listed[0].limit is not None,
)
check(
    "workspaces.begin_delete",
    lambda: workspaces.begin_delete(GROUP, WORKSPACE).result(60),
    lambda _: WORKSPACE not in names(workspaces.list_by_resource_group(GROUP)),
)
