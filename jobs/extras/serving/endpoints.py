"""Endpoints of the workspace in Azure: read, create, change and delete, and wait for Azure.

Azure works on an endpoint or a deployment for minutes, and refuses further changes until then.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from common.errors import UserError
from common.text import duration, plural
from common.waiting import wait_until
from jobs.azure.requests import segment, well_formed
from jobs.azure.resource_manager import ResourceManager
from jobs.console import Console, next_command
from jobs.errors import ConflictError, MissingError, RequestError, UnreachableError
from jobs.extras.serving import monitoring
from jobs.extras.serving.traffic_policy import Traffic
from jobs.pulumi.teardown_steps import Teardown

T = TypeVar("T")

FINAL: Final = ("Succeeded", "Failed", "Canceled")
"""States in which Azure does not work on a resource."""
MISSING: Final = "Missing"
"""What stands for the state of a resource that does not exist."""
PROVIDERS: Final = ("Microsoft.Cdn", "Microsoft.PolicyInsights")
"""Resource providers that a subscription with endpoints needs; see `infra.checks.needs`."""
_PROVIDERS_VERSION: Final = "2021-04-01"
TOLD_SECONDS: Final = 60.0
"""Seconds between two lines about the same progress."""


@dataclass(frozen=True)
class DeploymentState:
    """A deployment as Azure has it. Each of its instances costs money, even without requests."""

    name: str
    state: str
    model: str
    """NAME:VERSION, or whatever reference it has."""
    environment: str
    size: str
    instances: int
    body: Mapping[str, Any]


@dataclass(frozen=True)
class EndpointState:
    """An endpoint as Azure has it."""

    name: str
    id: str
    state: str
    address: str
    """URL that answers requests."""
    traffic: Traffic
    tags: Mapping[str, str]
    deployments: tuple[DeploymentState, ...]
    body: Mapping[str, Any]

    def deployment(self, name: str) -> DeploymentState | None:
        """Return a deployment by its name; None if there is none."""
        return next(
            (deployment for deployment in self.deployments if deployment.name == name), None
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the deployments."""
        return tuple(deployment.name for deployment in self.deployments)


@dataclass(frozen=True)
class Endpoints:
    """The online endpoints of a workspace."""

    manager: ResourceManager
    console: Console
    """Prints the progress."""
    wait_seconds: float = 3600.0
    """Longest time to wait for Azure, in seconds."""
    poll_seconds: float = 5.0
    """Pause between two looks, in seconds."""

    def all(self) -> list[EndpointState]:
        """List all endpoints of the workspace, with their deployments."""
        endpoints = []
        for document in self.manager.items("onlineEndpoints"):
            try:
                endpoints.append(self._read(document))
            except MissingError:
                # Otherwise it was deleted since it was listed.
                if self.manager.find(_endpoint(str(document["name"]))) is not None:
                    raise
        return endpoints

    def find(self, name: str) -> EndpointState | None:
        """Return an endpoint; None if there is none of this name."""
        try:
            return self._read(self.manager.get(_endpoint(name)))
        except MissingError:
            self.manager.check_workspace()
            # Asked again, as to create an endpoint that exists would take its traffic away.
            return next((endpoint for endpoint in self.all() if endpoint.name == name), None)

    def get(self, name: str) -> EndpointState:
        """Return an endpoint.

        Raises:
            MissingError: There is no such endpoint.
        """
        endpoint = self.find(name)
        if endpoint is None:
            raise MissingError(
                f"endpoint {name}: does not exist in workspace {self.manager.workspace};"
                f" `{next_command('status')}` lists the endpoints"
            )
        return endpoint

    def put(self, name: str, body: Mapping[str, Any]) -> EndpointState:
        """Create an endpoint or change it, and wait until Azure has done so.

        Raises:
            UserError: Azure failed, or took too long.
        """
        try:
            self._put(_endpoint(name), body, f"endpoint {name}")
        except RequestError as error:
            raise type(error)(f"{error}{self._registration()}", error.status) from error
        except FailedError as error:
            raise FailedError(f"{error}{self._registration()}") from error
        return self.get(name)

    def put_deployment(self, endpoint: str, name: str, body: Mapping[str, Any]) -> None:
        """Create a deployment, and wait until it is ready to answer.

        Raises:
            UserError: Azure failed, with the last lines of the container's log, or took too long.
        """
        path = _deployment(endpoint, name)
        try:
            self._put(path, body, f"deployment {name} of endpoint {endpoint}")
        except FailedError as error:
            lines = self.log(endpoint, name)
            said = f"; the last lines of its log:\n{lines}" if lines else ""
            raise FailedError(f"{error}{said}") from error

    def log(self, endpoint: str, name: str) -> str:
        """Return the last lines of a deployment's container; empty if Azure has none."""
        body = {"containerType": "InferenceServer", "tail": 30}
        try:
            answer = self.manager.post(f"{_deployment(endpoint, name)}/getLogs", body)
        except RequestError:
            return ""
        return str(answer.get("content") or "").strip()

    def delete(self, endpoint: EndpointState) -> None:
        """Delete an endpoint with its deployments and what belongs to them, and wait until Azure
        has done so.

        Raises:
            UserError: Azure refused it, or took too long.
        """
        for deployment in endpoint.deployments:
            self._delete_scaling(endpoint.name, deployment.name)
        for path in monitoring.alert_paths(self.manager.group_id, endpoint.name).values():
            self.manager.delete(path, monitoring.ALERTS)
        # Before the endpoint, which it would outlive: a new one of its name would have it again.
        self.manager.delete(monitoring.diagnostics_path(endpoint.id), monitoring.DIAGNOSTICS)
        self.manager.delete(_endpoint(endpoint.name))
        self._until_gone(_endpoint(endpoint.name), f"endpoint {endpoint.name}")

    def delete_deployment(self, endpoint: str, name: str) -> None:
        """Delete a deployment, and wait until Azure has done so.

        Raises:
            UserError: Azure refused it, or took too long.
        """
        self._delete_scaling(endpoint, name)
        self.manager.delete(_deployment(endpoint, name))
        self._until_gone(_deployment(endpoint, name), f"deployment {name} of endpoint {endpoint}")

    def _read(self, document: Mapping[str, Any]) -> EndpointState:
        name = str(document["name"])
        path = f"{_endpoint(name)}/deployments"
        deployments = tuple(read_deployment(item) for item in self.manager.items(path))
        return read_endpoint(document, deployments)

    def _put(self, path: str, body: Mapping[str, Any], what: str) -> None:
        # Azure refuses a change while it works on an earlier one.
        self._until_final(path, what)
        try:
            self.manager.put(path, body)
        except ConflictError as error:
            raise ConflictError(
                f"{error}\nan earlier command, or one of another user, changes {what} now; wait"
                f" until `{next_command('status')}` shows it as Succeeded, and run the same"
                " command again",
                error.status,
            ) from error
        state = self._until_final(path, what)
        if state != "Succeeded":
            raise FailedError(f"{what}: Azure could not create or change it (state {state})")

    def _registration(self) -> str:
        """Return which resource providers of endpoints are not registered, and the cure: Azure's
        refusal names none. Empty if all are, or Azure does not say.
        """
        try:
            states = {
                namespace: self.manager.get(
                    f"{self.manager.subscription_id}/providers/{namespace}", _PROVIDERS_VERSION
                ).get("registrationState")
                for namespace in PROVIDERS
            }
        except RequestError:
            return ""
        return "".join(
            f"\nendpoints need the resource provider {namespace}, which the subscription has not"
            " registered: its owner does so once (az provider register --namespace"
            f" {namespace} --wait); then run the same command again"
            for namespace, state in states.items()
            if state != "Registered"
        )

    def _until_final(self, path: str, what: str) -> str:
        """Wait until Azure does not work on a resource; return its state, or `MISSING`."""

        def final() -> str:
            resource = self.manager.find(path)
            if resource is None:
                return MISSING
            state = str(resource["properties"].get("provisioningState"))
            return state if state in FINAL else ""

        return self._until(final, f"{what} to be ready")

    def _until_gone(self, path: str, what: str) -> None:
        self._until(lambda: self.manager.find(path) is None, f"the deletion of {what}")

    def _until(self, reached: Callable[[], T], what: str) -> T:
        waited, reported = 0.0, 0.0

        def reports_and_looks() -> T | None:
            nonlocal waited, reported
            if waited and waited - reported >= min(TOLD_SECONDS, reported * 4 + 1):
                self.console.note(f"waiting for {what} ({duration(waited)})")
                reported = waited
            waited += self.poll_seconds
            try:
                return reached()
            except UnreachableError as error:
                self.console.note(f"{str(error).splitlines()[0]}; Azure continues, asking again")
                return None

        result = wait_until(reports_and_looks, self.wait_seconds, self.poll_seconds)
        if not result:
            raise UserError(
                f"waited {self.wait_seconds / 60:g} minutes for {what}; Azure continues by itself,"
                " and costs may arise. Run the same command again to continue to wait"
            )
        return result

    def _delete_scaling(self, endpoint: str, deployment: str) -> None:
        path = monitoring.autoscale_path(self.manager.group_id, endpoint, deployment)
        self.manager.delete(path, monitoring.AUTOSCALE)


def delete_all(teardown: Teardown) -> None:
    """Delete all endpoints of a workspace, as a step of its teardown."""
    endpoints = Endpoints(teardown.manager, teardown.console, teardown.wait, teardown.poll)
    try:
        existing = endpoints.all()
    except MissingError:
        return
    for endpoint in existing:
        count = plural(len(endpoint.deployments), "deployment")
        teardown.console.note(f"deleting endpoint {endpoint.name} with {count}")
        endpoints.delete(endpoint)
    if existing:
        teardown.did(f"deleted {plural(len(existing), 'endpoint')}")


class FailedError(UserError):
    """Azure accepted a change and could not carry it out."""


def read_endpoint(
    document: Mapping[str, Any], deployments: tuple[DeploymentState, ...]
) -> EndpointState:
    """Parse Resource Manager's response for an endpoint."""
    name = str(document["name"])
    with well_formed(f"endpoint {name}"):
        properties = document["properties"]
        return EndpointState(
            name=name,
            id=str(document["id"]),
            state=str(properties.get("provisioningState")),
            address=str(properties.get("scoringUri") or ""),
            traffic=Traffic(
                _parts(properties.get("traffic")), _parts(properties.get("mirrorTraffic"))
            ),
            tags=dict(document.get("tags") or {}),
            deployments=tuple(sorted(deployments, key=lambda deployment: deployment.name)),
            body=document,
        )


def read_deployment(document: Mapping[str, Any]) -> DeploymentState:
    """Parse Resource Manager's response for a deployment."""
    name = str(document["name"])
    with well_formed(f"deployment {name}"):
        properties = document["properties"]
        return DeploymentState(
            name=name,
            state=str(properties.get("provisioningState")),
            model=reference(str(properties.get("model") or "")),
            environment=reference(str(properties.get("environmentId") or "")),
            size=str(properties.get("instanceType") or "?"),
            instances=int((document.get("sku") or {}).get("capacity") or 0),
            body=document,
        )


def reference(asset_id: str) -> str:
    """Return NAME:VERSION of an asset's id; anything else unchanged. Pure."""
    parts = asset_id.split("/")
    return f"{parts[-3]}:{parts[-1]}" if parts[-2:-1] == ["versions"] else asset_id


def _parts(traffic: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: int(part) for name, part in (traffic or {}).items() if part and int(part)}


def _endpoint(name: str) -> str:
    return f"onlineEndpoints/{segment(name)}"


def _deployment(endpoint: str, name: str) -> str:
    return f"{_endpoint(endpoint)}/deployments/{segment(name)}"
