"""The engine's side of the provider: the protocol of Pulumi, on a port of loopback."""

from collections.abc import Callable, Mapping
from concurrent import futures
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2
from pulumi.runtime.proto import provider_pb2 as protocol
from pulumi.runtime.proto.provider_pb2_grpc import (
    ResourceProviderServicer,
    add_ResourceProviderServicer_to_server,
)
from typing_extensions import override

from rehearsal.pulumi.provider.arm_client import Manager, RefusedError
from rehearsal.pulumi.provider.input_checks import problems
from rehearsal.pulumi.provider.input_diff import Change, changes
from rehearsal.pulumi.provider.lifecycle import Declared
from rehearsal.pulumi.provider.types import lookup
from rehearsal.pulumi.provider.types.resource_type import ResourceType, identifier
from rehearsal.pulumi.provider.values import holds_unknown, plain, struct

VERSION: Final = "3.29.0"
"""Of azure-native, whose inputs and outputs these are."""
CLIENT_CONFIG: Final = f"{lookup.PACKAGE}:authorization:getClientConfig"
_SUBSCRIPTION: Final = f"{lookup.PACKAGE}:config:subscriptionId"
_THREADS: Final = 32
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


class Provider:
    """A running provider, as a context manager.

    Args:
        environment: of the program that deploys, as `Loopback.environment` gives it.
        url: of Resource Manager.
        subscription: id of the one to deploy to, unless the stack's configuration names another.
    """

    def __init__(self, environment: Mapping[str, str], url: str, subscription: str) -> None:
        declared = Declared(Manager(environment, url), subscription)
        self._server = grpc.server(futures.ThreadPoolExecutor(_THREADS))
        add_ResourceProviderServicer_to_server(_Servicer(declared), self._server)
        self.port = int(self._server.add_insecure_port("127.0.0.1:0"))
        self._server.start()

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make an engine attach here instead of starting the plugin."""
        return {"PULUMI_DEBUG_PROVIDERS": f"{lookup.PACKAGE}:{self.port}"}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Answer nothing more; safe to repeat."""
        self._server.stop(grace=None).wait()


class _Servicer(ResourceProviderServicer):
    """Secrets are the engine's: it hands them over opened, and closes what comes back."""

    def __init__(self, declared: Declared) -> None:
        self._declared = declared

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
        wanted = request.variables.get(_SUBSCRIPTION)
        if wanted:
            self._declared = Declared(self._declared.manager, wanted)
        return protocol.ConfigureResponse(supportsPreview=True)

    @override
    def Invoke(self, request: Any, context: Any) -> Any:
        if request.tok != CLIENT_CONFIG:
            _refuse(context, grpc.StatusCode.NOT_FOUND, f"{request.tok} is not answered here")
        manager = self._declared.manager
        answer = {
            "clientId": manager.client_id,
            "objectId": manager.client_id,
            "subscriptionId": self._declared.subscription,
            "tenantId": manager.tenant_id,
        }
        return protocol.InvokeResponse(**{"return": struct(answer)})

    @override
    def Check(self, request: Any, context: Any) -> Any:
        found = problems(_type(request, context), plain(request.news))
        failures = [protocol.CheckFailure(property=one.path, reason=one.reason) for one in found]
        return protocol.CheckResponse(inputs=request.news, failures=failures)

    @override
    def Diff(self, request: Any, context: Any) -> Any:
        type_, new = _type(request, context), plain(request.news)
        found = changes(type_, plain(request.old_inputs), new)
        if not found:
            return protocol.DiffResponse(changes=protocol.DiffResponse.DIFF_NONE)
        same = not holds_unknown({name: new.get(name) for name in type_.identifying}) and (
            identifier(type_, new, self._declared.subscription).lower() == request.id.lower()
        )
        return protocol.DiffResponse(
            changes=protocol.DiffResponse.DIFF_SOME,
            replaces=[one.path for one in found if one.replaces],
            diffs=[one.path for one in found],
            detailedDiff={one.path: _detail(one) for one in found},
            hasDetailedDiff=True,
            # Two cannot have one name at once.
            deleteBeforeReplace=same,
        )

    @override
    def Create(self, request: Any, context: Any) -> Any:
        type_, inputs = _type(request, context), plain(request.properties)
        if request.preview:
            foreseen = self._declared.foreseen(type_, inputs, {})
            return protocol.CreateResponse(properties=struct(foreseen))
        made = _done(context, lambda: self._declared.create(type_, inputs))
        return protocol.CreateResponse(id=made.id, properties=struct(made.outputs))

    @override
    def Read(self, request: Any, context: Any) -> Any:
        type_, inputs = _type(request, context), plain(request.inputs)
        if not inputs:
            words = "what no stack has made cannot be taken over or looked up here"
            _refuse(context, grpc.StatusCode.UNIMPLEMENTED, f"{request.id}: {words}")
        recorded = plain(request.properties)
        found = _done(context, lambda: self._declared.read(type_, request.id, inputs, recorded))
        if found is None:
            return protocol.ReadResponse()
        return protocol.ReadResponse(
            id=found.id, properties=struct(found.outputs), inputs=struct(found.inputs)
        )

    @override
    def Update(self, request: Any, context: Any) -> Any:
        type_, inputs = _type(request, context), plain(request.news)
        if request.preview:
            foreseen = self._declared.foreseen(type_, inputs, plain(request.olds))
            return protocol.UpdateResponse(properties=struct(foreseen))
        made = _done(context, lambda: self._declared.update(type_, request.id, inputs))
        return protocol.UpdateResponse(properties=struct(made.outputs))

    @override
    def Delete(self, request: Any, context: Any) -> Any:
        type_ = _type(request, context)
        _done(context, lambda: self._declared.delete(type_, request.id))
        return empty_pb2.Empty()

    @override
    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()


def _type(request: Any, context: Any) -> ResourceType:
    """The type that a request is about."""
    token = request.type or request.urn.split("::")[2].rsplit("$", 1)[-1]
    found = lookup.find(token)
    if found is None:
        words = (
            f"{token} is not known here; rehearsal/pulumi/provider/types/lookup.py lists what is"
        )
        _refuse(context, grpc.StatusCode.UNIMPLEMENTED, words)
    return found


def _done(context: Any, function: Callable[[], _Done]) -> _Done:
    """What a function gives; its refusal becomes that of the protocol."""
    try:
        return function()
    except RefusedError as error:
        _refuse(context, grpc.StatusCode.UNKNOWN, str(error))


def _refuse(context: Any, code: grpc.StatusCode, words: str) -> NoReturn:
    context.abort(code, words)
    raise AssertionError(words)


def _detail(change: Change) -> protocol.PropertyDiff:
    kind = (_REPLACING if change.replaces else _KINDS)[change.kind]
    return protocol.PropertyDiff(kind=kind, inputDiff=True)
