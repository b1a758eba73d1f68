"""A scoring server under load: its start, its clients, and what both cost."""

import http.client
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from common.errors import UserError
from trainer.scoring.options import ServeOptions
from trainer.scoring.server import command, variables

_READY_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True)
class Load:
    """What a server did under a load."""

    images_per_s: float
    p50_ms: float
    """Median time of a request."""
    p99_ms: float
    cpu_ms: float
    """CPU time of the server's processes for an image."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    options: ServeOptions
    master: psutil.Process
    start_seconds: float
    """Time from its start to its first answer."""

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes so far."""
        family = [self.master, *self.master.children(recursive=True)]
        return sum(sum(process.cpu_times()[:2]) for process in family)

    def memory_mb(self) -> list[float]:
        """Return the resident memory of each worker."""
        return [worker.memory_info().rss / 1e6 for worker in self.master.children()]


@contextmanager
def running(
    options: ServeOptions, saved_model: Path, changes: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run the server of `python -m trainer serve` until the context is left.

    Args:
        options: Its options.
        saved_model: SavedModel that it serves.
        changes: Environment variables to change.

    Raises:
        UserError: It does not become ready.
    """
    environment = {**os.environ, **variables(options, saved_model), **(changes or {})}
    began = time.perf_counter()
    with subprocess.Popen(
        command(options), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    ) as process:
        try:
            _wait_until_ready(options, process, began)
            ready = time.perf_counter() - began
            yield Server(options, psutil.Process(process.pid), ready)
        finally:
            with suppress(psutil.NoSuchProcess):
                for each in (process, *psutil.Process(process.pid).children()):
                    each.kill()


def _wait_until_ready(
    options: ServeOptions, process: "subprocess.Popen[bytes]", began: float
) -> None:
    while True:
        connection = http.client.HTTPConnection(options.host, options.port, timeout=_READY_SECONDS)
        with suppress(OSError):
            connection.request("GET", "/")
            if connection.getresponse().status == 200:
                return
        if process.poll() is not None or time.perf_counter() - began > _READY_SECONDS:
            raise UserError("the server did not start; run `make serve` to see why")
        time.sleep(_POLL_SECONDS)


@dataclass
class _Clients:
    """Clients that send one request after the other until a time."""

    server: Server
    body: Callable[[int], tuple[bytes, str]]
    end: float
    times: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def run(self, number: int) -> None:
        """Be one client."""
        options = self.server.options
        while time.perf_counter() < self.end:
            body, kind = self.body(number)
            number += 1
            began = time.perf_counter()
            connection = http.client.HTTPConnection(options.host, options.port, timeout=60)
            connection.request("POST", "/score", body, {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
            self.times.append(time.perf_counter() - began)
            if answer.status != 200:
                self.failed.append(f"{answer.status} {text[:200]!r}")


def put_load(
    server: Server, images: Sequence[bytes], clients: int, together: int, seconds: float
) -> Load:
    """Send requests for some seconds.

    Args:
        server: The server.
        images: Images to send.
        clients: Number of clients.
        together: Images in a request.
        seconds: Duration.

    Raises:
        UserError: A request was refused.
    """

    def body(number: int) -> tuple[bytes, str]:
        if together == 1:
            return images[number % len(images)], "application/octet-stream"
        return form([images[(number + each) % len(images)] for each in range(together)])

    began, cpu = time.perf_counter(), server.cpu_seconds()
    load = _Clients(server, body, began + seconds)
    threads = [
        threading.Thread(target=load.run, args=(client * len(images) // clients,))
        for client in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, cpu = time.perf_counter() - began, server.cpu_seconds() - cpu
    if load.failed or not load.times:
        raise UserError(f"{len(load.failed)} requests were refused: {load.failed[:3]}")
    times, done = sorted(load.times), len(load.times) * together
    return Load(
        images_per_s=done / wall,
        p50_ms=1000 * times[len(times) // 2],
        p99_ms=1000 * times[int(len(times) * 0.99)],
        cpu_ms=1000 * cpu / done,
    )


def form(images: Sequence[bytes]) -> tuple[bytes, str]:
    """Return a multipart form with a file for each image, and its type."""
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="a"; filename="'
    parts = [
        f'{head}{number}"\r\n\r\n'.encode() + image + b"\r\n" for number, image in enumerate(images)
    ]
    kind = f"multipart/form-data; boundary={boundary}"
    return b"".join([*parts, f"--{boundary}--\r\n".encode()]), kind
