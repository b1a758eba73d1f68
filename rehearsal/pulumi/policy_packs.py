"""Runs policy packs of Pulumi's Python SDK, as Pulumi's own language host does.

The engine first connects to a pack and only then names the stack, but a pack of the SDK expects the
stack in its environment. So a relay answers the engine, starts the pack as soon as the stack is
known, and forwards everything else to it.
"""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import IO, Any, Final

import grpc
from pulumi.runtime.proto import analyzer_pb2, language_pb2
from typing_extensions import override

from rehearsal.errors import RehearsalError

KIND: Final = "analyzer"
"""The engine's name for this kind of plugin."""
_SERVICE: Final = "/pulumirpc.Analyzer/"
_THREADS: Final = 8
_UNLIMITED: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
_GRACE_SECONDS: Final = 5
_EMPTY: Final = b""
"""A message with no field set, valid for any type."""


class PolicyPack(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A pack that runs until it ends or is closed.

    Args:
        request: The engine's request to run it.
    """

    def __init__(self, request: Any) -> None:
        self._request = request
        self._outputs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Any = None
        self._server = grpc.server(futures.ThreadPoolExecutor(_THREADS), options=_UNLIMITED)
        self._server.add_generic_rpc_handlers((self,))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self._outputs.put(_output(f"{port}\n".encode()))

    def output(self) -> Iterator[Any]:
        """Yield the output of the pack as the engine reads it; ends with the pack, or when it is
        closed.

        The first line is the port that the engine is to connect to.
        """
        while (output := self._outputs.get()) is not None:
            yield output

    def close(self) -> None:
        """Stop the pack; can be called repeatedly."""
        self._closed = True
        # Before the lock too: `_started` holds it until the pack has started or ended.
        self._end()
        with self._lock:
            self._end()
            if self._channel is not None:
                self._channel.close()
        self._server.stop(grace=None)
        self._outputs.put(None)

    @override
    def service(self, handler_call_details: Any) -> Any:
        """Handle a call of the engine by forwarding its messages undecoded."""
        method = handler_call_details.method
        if not method.startswith(_SERVICE):
            return None
        answers: dict[str, Callable[[bytes, Any], bytes]] = {
            "Handshake": lambda _request, _context: _EMPTY,
            "ConfigureStack": self._configure_stack,
        }

        def hand_on(request: bytes, context: Any) -> bytes:
            return self._hand_on(method, request, context)

        answer = answers.get(method.removeprefix(_SERVICE), hand_on)
        return grpc.unary_unary_rpc_method_handler(answer)

    def _configure_stack(self, request: bytes, context: Any) -> bytes:
        stack = analyzer_pb2.AnalyzerStackConfigureRequest.FromString(request)
        variables = {
            "PULUMI_ORGANIZATION": stack.organization,
            "PULUMI_PROJECT": stack.project,
            "PULUMI_STACK": stack.stack,
            "PULUMI_DRY_RUN": str(stack.dry_run).lower(),
            "PULUMI_CONFIG": json.dumps(dict(stack.config)),
        }
        self._started(context, {name: value for name, value in variables.items() if value})
        return _EMPTY

    def _hand_on(self, method: str, request: bytes, context: Any) -> bytes:
        # A command without a stack sends no stack name.
        channel = self._started(context, {})
        try:
            answer: bytes = channel.unary_unary(method)(request)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
            raise
        return answer

    def _started(self, context: Any, variables: dict[str, str]) -> Any:
        """Return a connection to the pack, and start the pack if necessary."""
        with self._lock:
            if self._channel is None:
                try:
                    self._channel = self._start(variables)
                except RehearsalError as error:
                    context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            return self._channel

    def _start(self, variables: dict[str, str]) -> Any:
        if self._closed:
            raise RehearsalError("the policy pack is being stopped")
        folder = self._request.info.program_directory
        inherited = dict(variable.split("=", 1) for variable in self._request.env)
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "pulumi.policy", *self._request.args, folder],
            cwd=folder,
            env=inherited | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        errors = threading.Thread(target=self._pass_on, args=(self._process.stderr, _error))
        errors.start()
        first = self._process.stdout.readline().decode().strip()
        if not first.isdigit():
            status = _ended(self._process)
            raise RehearsalError(
                f"{folder}: the policy pack exited with status {status} and printed {first!r}"
                " instead of its port; see its output"
            )
        threading.Thread(target=self._follow, args=(self._process, errors)).start()
        return grpc.insecure_channel(f"127.0.0.1:{first}", options=_UNLIMITED)

    def _follow(self, process: subprocess.Popen[bytes], errors: threading.Thread) -> None:
        """Forward everything that a pack writes after its port, and its end."""
        assert process.stdout is not None
        self._pass_on(process.stdout, _output)
        errors.join()
        self._outputs.put(language_pb2.RunPluginResponse(exitcode=process.wait()))
        self._outputs.put(None)

    def _pass_on(self, stream: IO[bytes], message: Callable[[bytes], Any]) -> None:
        with stream:
            for line in stream:
                self._outputs.put(message(line))

    def _end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            _ended(self._process)


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Return the exit status of a process that is about to end; kill it if it does not."""
    try:
        return process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _output(line: bytes) -> Any:
    return language_pb2.RunPluginResponse(stdout=line)


def _error(line: bytes) -> Any:
    return language_pb2.RunPluginResponse(stderr=line)
