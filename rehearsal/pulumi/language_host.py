"""A Python language host on Pulumi's SDK, because the official one is not a Python package.

The engine starts it as `pulumi-language-python` and reads its port from its first line. It runs
programs and policy packs, and installs nothing: both use the packages of this Python.
"""

import os
import runpy
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, Final

import grpc
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, language_pb2_grpc
from typing_extensions import override

from rehearsal.pulumi import policy_packs

NAME: Final = "pulumi-language-python"
_THREADS: Final = 8
_LOOK_SECONDS: Final = 1.0
"""Seconds between two checks whether the engine is still running."""


class _Host(LanguageServer):
    def __init__(self) -> None:
        super().__init__(lambda: None)
        self._packs: list[policy_packs.PolicyPack] = []

    def close(self) -> None:
        """Stop the policy packs."""
        for pack in self._packs:
            pack.close()

    @override
    def Handshake(self, request: Any, context: Any) -> Any:
        return language_pb2.LanguageHandshakeResponse()

    @override
    def Run(self, request: Any, context: Any) -> Any:
        program = Path(request.info.program_directory) / request.info.entry_point
        if program.is_dir():
            program /= "__main__.py"
        # As Python does for a script.
        sys.path.insert(0, str(program.parent))

        def run() -> None:
            runpy.run_path(str(program), run_name="__main__")

        self.program = run
        answer = super().Run(request, context)  # type: ignore[no-untyped-call]
        if answer.error:
            # The error is logged already; otherwise the engine would report it again, as unhandled.
            return language_pb2.RunResponse(bail=True)
        return answer

    @override
    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        if request.kind != policy_packs.KIND:
            folder = request.info.program_directory
            problem = f"{folder}: this host runs programs and policy packs, not {request.kind}"
            context.abort(grpc.StatusCode.UNIMPLEMENTED, problem)
        pack = policy_packs.PolicyPack(request)
        self._packs.append(pack)
        if not context.add_callback(pack.close):
            pack.close()
        yield from pack.output()


def is_installed(engine: Path) -> bool:
    """Check whether the official host is installed: on PATH, or next to the engine's own file."""
    beside = engine.resolve().with_name(NAME)
    return shutil.which(NAME) is not None or beside.exists()


def write(folder: Path) -> Path:
    """Write the executable that the engine looks up on PATH.

    Args:
        folder: Folder to put on PATH.
    """
    root = Path(__file__).resolve().parents[2]
    file = folder / NAME
    folder.mkdir(parents=True, exist_ok=True)
    # -P: the engine starts it in the program's folder, whose modules must not be importable.
    python, path = shlex.quote(sys.executable), shlex.quote(str(root))
    command = f'PYTHONPATH={path} exec {python} -P -m rehearsal.pulumi.language_host "$@"'
    file.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def main() -> int:
    """Serve until the engine stops it, or has ended."""
    engine = os.getppid()
    ended = threading.Event()
    # Ctrl-C is for the engine, which stops its hosts when the programs have ended.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    host = _Host()
    server = grpc.server(futures.ThreadPoolExecutor(_THREADS))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while not ended.wait(_LOOK_SECONDS) and os.getppid() == engine:
        continue
    host.close()
    server.stop(grace=None)
    # A program that was cut off may have left threads.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
