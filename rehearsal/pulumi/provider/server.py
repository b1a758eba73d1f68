"""The provider's gRPC server: Pulumi's provider protocol, on a port of loopback."""

import contextlib
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any, Final, NoReturn, TypeVar

import grpc
from google.protobuf import any_pb2, empty_pb2
from pulumi.runtime.proto import plugin_pb2, status_pb2
from pulumi.runtime.proto import provider_pb2 as protocol
from pulumi.runtime.proto.provider_pb2_grpc import (
    ResourceProviderServicer,
    add_ResourceProviderServicer_to_server,
)
from typing_extensions import override

from rehearsal.pulumi.provider import types
from rehearsal.pulumi.provider.arm_client import ArmClient, RefusedError
from rehearsal.pulumi.provider.inputs import InputChange, input_changes, input_problems
from rehearsal.pulumi.provider.lifecycle import DeclaredResources, PartlyCreatedError
from rehearsal.pulumi.provider.resource_type import ResourceType, identifier
from rehearsal.pulumi.provider.values import holds_unknown, plain, struct

VERSION: Final = "3.29.0"
"""Version of azure-native whose inputs and outputs are imitated."""
CLIENT_CONFIG: Final = f"{types.PACKAGE}:authorization:getClientConfig"
_SUBSCRIPTION: Final = f"{types.PACKAGE}:config:subscriptionId"
_THREADS: Final = 32
_UNKNOWN: Final = 2
"""gRPC's code UNKNOWN."""
_KINDS: Final = {
    "add": protocol.PropertyDiff.Kind.ADD,
    "delete": protocol.PropertyDiff.Kind.DELETE,
    "update": protocol.PropertyDiff.Kind.UPDATE,
}
_REPLACING: Final = {
    "add": protocol.PropertyDiff.Kind.ADD_REPLACE,
    "delete": protocol.PropertyDiff.Kind.DELETE_REPLACE,
    "update": protocol.PropertyDiff.Kind.UPDATE_REPLACE,
}
_Done = TypeVar("_Done")


class Provider(contextlib.AbstractContextManager["Provider"]):
    """A running provider, as a context manager.

    Args:
        environment: Environment with the deployer's credentials, such as `Simulator.environment`.
        url: Address of Resource Manager.
        subscription: Id of the subscription to deploy to, unless the stack's configuration names
            one.
    """

    def __init__(self, environment: Mapping[str, str], url: str, subscription: str) -> None:
        resources = DeclaredResources(ArmClient(environment, url), subscription)
        self._server = grpc.server(futures.ThreadPoolExecutor(_THREADS))
        add_ResourceProviderServicer_to_server(_Servicer(resources), self._server)
        self.port = int(self._server.add_insecure_port("127.0.0.1:0"))
        self._server.start()

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make an engine attach here instead of starting the plugin."""
        return {"PULUMI_DEBUG_PROVIDERS": f"{types.PACKAGE}:{self.port}"}

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving; can be called repeatedly."""
        self._server.stop(grace=None).wait()


class _Servicer(ResourceProviderServicer):
    """Does not accept secrets: the engine passes them decrypted, and encrypts the results."""

    def __init__(self, resources: DeclaredResources) -> None:
        self._resources = resources

    @override
    def Handshake(self, request: Any, context: Any) -> Any:
        return protocol.ProviderHandshakeResponse()

    @override
    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    @override
    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    @override
    def GetSchema(self, request: Any, context: Any) -> Any:
        return protocol.GetSchemaResponse(schema="{}")

    @override
    def CheckConfig(self, request: Any, context: Any) -> Any:
        return protocol.CheckResponse(inputs=request.news)

    @override
    def DiffConfig(self, request: Any, context: Any) -> Any:
        return protocol.DiffResponse(changes=protocol.DiffResponse.DIFF_NONE)

    @override
    def Configure(self, request: Any, context: Any) -> Any:
        subscription = request.variables.get(_SUBSCRIPTION)
        if subscription:
            self._resources = DeclaredResources(self._resources.client, subscription)
        return protocol.ConfigureResponse(supportsPreview=True)

    @override
    def Invoke(self, request: Any, context: Any) -> Any:
        if request.tok != CLIENT_CONFIG:
            _refuse(context, grpc.StatusCode.NOT_FOUND, f"{request.tok} is not supported here")
        client = self._resources.client
        answer = {
            "clientId": client.client_id,
            "objectId": client.client_id,
            "subscriptionId": self._resources.subscription,
            "tenantId": client.tenant_id,
        }
        return protocol.InvokeResponse(**{"return": struct(answer)})

    @override
    def Check(self, request: Any, context: Any) -> Any:
        problems = input_problems(_type(request, context), plain(request.news))
        failures = [
            protocol.CheckFailure(property=problem.path, reason=problem.reason)
            for problem in problems
        ]
        return protocol.CheckResponse(inputs=request.news, failures=failures)

    @override
    def Diff(self, request: Any, context: Any) -> Any:
        type_, new = _type(request, context), plain(request.news)
        changes = input_changes(type_, plain(request.old_inputs), new)
        if not changes:
            return protocol.DiffResponse(changes=protocol.DiffResponse.DIFF_NONE)
        same = not holds_unknown({name: new.get(name) for name in type_.identifying}) and (
            identifier(type_, new, self._resources.subscription).lower() == request.id.lower()
        )
        return protocol.DiffResponse(
            changes=protocol.DiffResponse.DIFF_SOME,
            replaces=[change.path for change in changes if change.replaces],
            diffs=[change.path for change in changes],
            detailedDiff={change.path: _detail(change) for change in changes},
            hasDetailedDiff=True,
            # Two resources cannot have the same name at once.
            deleteBeforeReplace=same,
        )

    @override
    def Create(self, request: Any, context: Any) -> Any:
        type_, inputs = _type(request, context), plain(request.properties)
        if request.preview:
            foreseen = self._resources.foresee(type_, inputs, {})
            return protocol.CreateResponse(properties=struct(foreseen))
        created = _done(context, lambda: self._resources.create(type_, inputs))
        return protocol.CreateResponse(id=created.id, properties=struct(created.outputs))

    @override
    def Read(self, request: Any, context: Any) -> Any:
        type_, inputs = _type(request, context), plain(request.inputs)
        recorded = plain(request.properties)
        state = _done(context, lambda: self._resources.read(type_, request.id, inputs, recorded))
        if state is None:
            return protocol.ReadResponse()
        return protocol.ReadResponse(
            id=state.id, properties=struct(state.outputs), inputs=struct(state.inputs)
        )

    @override
    def Update(self, request: Any, context: Any) -> Any:
        type_, inputs = _type(request, context), plain(request.news)
        if request.preview:
            foreseen = self._resources.foresee(type_, inputs, plain(request.olds))
            return protocol.UpdateResponse(properties=struct(foreseen))
        updated = _done(context, lambda: self._resources.update(type_, request.id, inputs))
        return protocol.UpdateResponse(properties=struct(updated.outputs))

    @override
    def Delete(self, request: Any, context: Any) -> Any:
        type_ = _type(request, context)
        _done(context, lambda: self._resources.delete(type_, request.id))
        return empty_pb2.Empty()

    @override
    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()


def _type(request: Any, context: Any) -> ResourceType:
    """Return the type that a request is about."""
    token = request.type or request.urn.split("::")[2].rsplit("$", 1)[-1]
    type_ = types.find(token)
    if type_ is None:
        problem = f"{token} is not supported here; see rehearsal/pulumi/provider/types.py"
        _refuse(context, grpc.StatusCode.UNIMPLEMENTED, problem)
    return type_


def _done(context: Any, function: Callable[[], _Done]) -> _Done:
    """Return a function's result; a refusal becomes an error of the protocol."""
    try:
        return function()
    except PartlyCreatedError as error:
        _fail_partly(context, error)
    except RefusedError as error:
        _refuse(context, grpc.StatusCode.UNKNOWN, str(error))


def _fail_partly(context: Any, error: PartlyCreatedError) -> NoReturn:
    """End a call with the error and state of a resource that the next deployment will update."""
    state, problem = error.state, str(error)
    details = any_pb2.Any()
    details.Pack(
        protocol.ErrorResourceInitFailed(
            id=state.id,
            properties=struct(state.outputs),
            inputs=struct(state.inputs),
            reasons=[problem],
        )
    )
    status = status_pb2.Status(code=_UNKNOWN, message=problem, details=[details])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    _refuse(context, grpc.StatusCode.UNKNOWN, problem)


def _refuse(context: Any, code: grpc.StatusCode, problem: str) -> NoReturn:
    context.abort(code, problem)
    raise AssertionError(problem)


def _detail(change: InputChange) -> protocol.PropertyDiff:
    kind = (_REPLACING if change.replaces else _KINDS)[change.kind]
    return protocol.PropertyDiff(kind=kind, inputDiff=True)
