"""Pulumi's Python language host, on what its SDK carries: the official one is no package of Python.

The engine starts it as `pulumi-language-python` and reads its port from its first line.
"""

import os
import runpy
import signal
import sys
import threading
from concurrent import futures
from pathlib import Path
from typing import Any, Final

import grpc
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, language_pb2_grpc
from typing_extensions import override

NAME: Final = "pulumi-language-python"
_THREADS: Final = 8


class _Host(LanguageServer):
    def __init__(self) -> None:
        super().__init__(lambda: None)

    @override
    def Handshake(self, request: Any, context: Any) -> Any:
        return language_pb2.LanguageHandshakeResponse()

    @override
    def Run(self, request: Any, context: Any) -> Any:
        program = Path(request.info.program_directory) / request.info.entry_point
        if program.is_dir():
            program /= "__main__.py"
        # As if Python had been given the file.
        sys.path.insert(0, str(program.parent))

        def run() -> None:
            runpy.run_path(str(program), run_name="__main__")

        self.program = run
        answer = super().Run(request, context)  # type: ignore[no-untyped-call]
        if answer.error:
            # It is logged already; the engine would call it unhandled, and print it again.
            return language_pb2.RunResponse(bail=True)
        return answer


def write(folder: Path) -> Path:
    """Write the executable that the engine looks for on its path.

    Args:
        folder: to put on the path.
    """
    root = Path(__file__).resolve().parents[1]
    file = folder / NAME
    folder.mkdir(parents=True, exist_ok=True)
    # -P: the engine starts it in the program's folder, whose modules are not to be found.
    command = f'PYTHONPATH="{root}" exec "{sys.executable}" -P -m rehearsal.language_host "$@"'
    file.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def main() -> int:
    """Serve until the engine ends it."""
    ended = threading.Event()
    # Ctrl-C is for the engine, which ends its hosts when the programs have ended.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    server = grpc.server(futures.ThreadPoolExecutor(_THREADS))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(_Host(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    ended.wait()
    server.stop(grace=None)
    # A program that was cut off may have left threads.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
