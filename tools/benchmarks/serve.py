"""A scoring server under load: its start, times of requests, and CPU time of its processes.

The images are the 360 held-out digits, so the network is small and everything else weighs. Clients
and server share the machine. Two servers run, of which one lets requests share calls of the model.
"""

import http.client
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import psutil

from common.errors import UserError
from common.text import plural
from tools.benchmarks.measure import BenchmarkOptions, in_turns, spread
from tools.benchmarks.tables import loads
from trainer.config import Positive
from trainer.data.builtin.digits import VALIDATION_PER_CLASS, load_records, split
from trainer.export.layout import exported_model
from trainer.scoring.options import ServeOptions
from trainer.scoring.server import command, variables

CLIENTS: Final = (1, 4, 32)
TOGETHER: Final = 32
"""Images of a large request."""
SHARED, ALONE = "calls that requests share", "a call for each request"
FASTER: Final = 2.0
"""Goal: least factor of the requests/s with the most clients by which shared calls are faster."""
_READY_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Images/s, times of requests and CPU time of the scoring server. Needs `make serve` and a run
    of the digits.
    """

    run: str = "runs/latest"
    """Folder of a run of the digits, with an export."""

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each load."""

    seconds: Annotated[float, Positive] = 3.0
    """Duration of a turn."""

    starts: Annotated[int, Positive] = 3
    """Number of starts that are timed."""

    port: int = 5091
    """Port of the server; a second one has the next."""

    workers: Annotated[int, Positive] = 2
    """Workers of the server."""


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

    def ask(self, method: str, path: str, body: bytes = b"", kind: str = "") -> int:
        """Send a request; return its status."""
        connection = http.client.HTTPConnection(self.options.host, self.options.port, timeout=60)
        connection.request(method, path, body, {"Content-Type": kind})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status


def measure(options: Options) -> dict[str, Any]:
    """Measure starts, then loads in turns, then memory."""
    saved_model = exported_model(options.run, None).resolve()
    _, held_out = split(load_records(), VALIDATION_PER_CLASS, "digits")
    images = [record.encoded for record in held_out]
    ours, starts = ServeOptions(port=options.port, workers=options.workers), []
    for number in range(options.starts):
        with running(ours, saved_model) as server:
            starts.append(server.start_seconds)
        print(f"start {number + 1} of {options.starts}", flush=True)
    alone = replace(ours, port=options.port + 1, wait_ms=0.0)
    with running(ours, saved_model) as server, running(alone, saved_model) as other:
        turns: dict[str, Callable[[], dict[str, float]]] = {
            _loaded(clients, name): partial(put_load, each, images, clients, 1, options.seconds)
            for clients in CLIENTS
            for name, each in ((SHARED, server), (ALONE, other))
        }
        turns[f"{TOGETHER} images a request"] = partial(
            put_load, server, images, 1, TOGETHER, options.seconds
        )
        measured = in_turns(turns, options.rounds)
        memory = [worker.memory_info().rss / 1e6 for worker in server.master.children()]
    return {"rounds": measured, "start_seconds": starts, "memory_mb": memory}


def _loaded(clients: int, name: str) -> str:
    return f"{plural(clients, 'client')}, {name}"


@contextmanager
def running(options: ServeOptions, saved_model: Path) -> Iterator[Server]:
    """Run the server of `ml-trainer serve` until the context is left.

    Raises:
        UserError: It does not become ready.
    """
    environment, began = {**os.environ, **variables(options, saved_model)}, time.perf_counter()
    with subprocess.Popen(
        command(options), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    ) as process:
        master = psutil.Process(process.pid)
        try:
            while not _ready(Server(options, master, 0.0)):
                if process.poll() is not None or time.perf_counter() - began > _READY_SECONDS:
                    raise UserError("the server did not start; run `make serve` to see why")
                time.sleep(_POLL_SECONDS)
            yield Server(options, master, time.perf_counter() - began)
        finally:
            with suppress(psutil.NoSuchProcess):
                for each in (process, *master.children()):
                    each.kill()


def _ready(server: Server) -> bool:
    with suppress(OSError):
        return server.ask("GET", "/") == 200
    return False


def put_load(
    server: Server, images: Sequence[bytes], clients: int, together: int, seconds: float
) -> dict[str, float]:
    """Send requests for some seconds.

    Args:
        server: The server.
        images: Images to send.
        clients: Clients, each of which sends one request after the other.
        together: Images in a request.
        seconds: Duration.

    Returns:
        Images/s, median and 99th percentile of the times of requests, and CPU time of an image.

    Raises:
        UserError: A request was refused.
    """
    began, cpu = time.perf_counter(), server.cpu_seconds()

    def client(number: int) -> list[float]:
        times = []
        while time.perf_counter() < began + seconds:
            batch = [images[(number + each) % len(images)] for each in range(together)]
            kind = "application/octet-stream"
            body, kind = (batch[0], kind) if together == 1 else form(batch)
            sent = time.perf_counter()
            status = server.ask("POST", "/score", body, kind)
            times.append(time.perf_counter() - sent)
            if status != 200:
                raise UserError(f"a request was refused with status {status}")
            number += 1
        return times

    with ThreadPoolExecutor(clients) as pool:
        starts = (number * len(images) // clients for number in range(clients))
        times = sorted(each for own in pool.map(client, starts) for each in own)
    wall, cpu = time.perf_counter() - began, server.cpu_seconds() - cpu
    done = len(times) * together
    return {
        "images_per_s": done / wall,
        "p50_ms": 1000 * times[len(times) // 2],
        "p99_ms": 1000 * times[int(len(times) * 0.99)],
        "cpu_ms": 1000 * cpu / done,
    }


def form(images: Sequence[bytes]) -> tuple[bytes, str]:
    """Return a multipart form with a file for each image, and its type."""
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="a"; filename="'
    parts = [
        f'{head}{number}"\r\n\r\n'.encode() + image + b"\r\n" for number, image in enumerate(images)
    ]
    kind = f"multipart/form-data; boundary={boundary}"
    return b"".join([*parts, f"--{boundary}--\r\n".encode()]), kind


show = loads


def goals(data: Mapping[str, Any]) -> str:
    """Compare shared calls with the goal; tell the time of a start, and a worker's memory."""
    shared, alone = (
        [turn["images_per_s"] for turn in data["rounds"][_loaded(CLIENTS[-1], name)]]
        for name in (SHARED, ALONE)
    )
    faster = spread([shared_ms / other for shared_ms, other in zip(shared, alone, strict=True)])
    start, memory = spread(data["start_seconds"]), spread(data["memory_mb"])
    return (
        f"{plural(CLIENTS[-1], 'client')}, {SHARED} / {ALONE} {faster.text('.2f')}; the goal is at"
        f" least {FASTER:g}\n"
        f"from the start to the first answer {start.text('.1f')} s\n"
        f"memory of a worker after that {memory.text('.0f')} MB"
    )
