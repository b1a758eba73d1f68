"""Requests to `python -m trainer serve`, compared with plain TensorFlow and with an empty server.

The images are the 360 held-out digits, so the network is small and everything else weighs. Clients
and server share the machine. In each round, a load of each kind takes its turn on the server, on
one whose `run` reads the body and does nothing else, and in this process, where TensorFlow's
signature is called without any server. CPU time is that of the server's processes alone.
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from benchmarks.measure import BenchmarkOptions, columns, in_turns, spread
from benchmarks.serving.load import Load, put_load, running
from trainer.config import Positive
from trainer.data.builtin.digits import VALIDATION_PER_CLASS, load_records, split
from trainer.export.layout import exported_model
from trainer.scoring.options import ServeOptions

CLIENTS: Final = (1, 4, 16)
TOGETHER: Final = 32
"""Images of a large request."""
OURS, FLOOR, PLAIN = "trainer serve", "empty run()", "TensorFlow alone"

EMPTY: Final = """
from azureml_inference_server_http.api.aml_request import rawhttp
from azureml_inference_server_http.api.aml_response import AMLResponse

def init():
    pass

@rawhttp
def run(request):
    request.get_data()
    return AMLResponse("", 200)
"""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Images/s, times of requests and CPU time of the scoring server, compared with plain
    TensorFlow and with a server that does nothing. Needs `make serve` and a run of the digits.
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
    """First of two ports."""

    workers: Annotated[int, Positive] = 2
    """Workers of each server."""


def measure(options: Options) -> dict[str, Any]:
    """Measure starts, then loads in turns, then memory."""
    saved_model = exported_model(options.run, None).resolve()
    _, held_out = split(load_records(), VALIDATION_PER_CLASS, "digits")
    images = [record.encoded for record in held_out]
    ours = ServeOptions(port=options.port, workers=options.workers)
    starts = []
    for number in range(options.starts):
        with running(ours, saved_model) as server:
            starts.append(server.start_seconds)
        print(f"start {number + 1} of {options.starts}", flush=True)
    plain = _plain(saved_model, images, options.seconds)
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch) / "score.py"
        script.write_text(EMPTY)
        empty = replace(ours, port=options.port + 1)
        with (
            running(ours, saved_model) as server,
            running(empty, saved_model, {"AZUREML_ENTRY_SCRIPT": str(script)}) as floor,
        ):
            turns: dict[str, Callable[[], Load]] = {}
            for name, place in ((OURS, server), (FLOOR, floor)):
                for clients, together in (*((n, 1) for n in CLIENTS), (1, TOGETHER)):
                    turns[_name(name, clients, together)] = partial(
                        put_load, place, images, clients, together, options.seconds
                    )
            for together in (1, TOGETHER):
                turns[_name(PLAIN, 1, together)] = partial(plain, together)
            rounds = in_turns(turns, options.rounds)
            memory = server.memory_mb()
    return {"rounds": rounds, "start_seconds": starts, "memory_mb": memory}


def _name(what: str, clients: int, together: int) -> str:
    if together > 1:
        return f"{what}, {together} images a request"
    return what if what == PLAIN else f"{what}, {clients} client{'s' * (clients > 1)}"


def _plain(saved_model: Path, images: list[bytes], seconds: float) -> Callable[[int], Load]:
    """Return a function that calls the signature in this process, with one thread."""
    os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = "1"
    import tensorflow as tf  # noqa: PLC0415 - after the threads are set

    exported = tf.saved_model.load(str(saved_model))
    signature = exported.signatures["serving_default"]

    def load(together: int) -> Load:
        # The model must live as long as its signature.
        assert exported is not None
        times: list[float] = []
        began, cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() < began + seconds:
            start = len(times) * together
            batch = [images[(start + each) % len(images)] for each in range(together)]
            called = time.perf_counter()
            for output in signature(images=tf.constant(batch, tf.string)).values():
                output.numpy()
            times.append(time.perf_counter() - called)
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        done, times = len(times) * together, sorted(times)
        return Load(
            done / wall,
            1000 * times[len(times) // 2],
            1000 * times[int(len(times) * 0.99)],
            1000 * cpu / done,
        )

    load(1)
    return load


def show(data: Mapping[str, Any]) -> str:
    """Format the tables."""
    rows = [["", "images/s", "p50, ms", "p99, ms", "CPU-ms/image"]]
    for name, rounds in data["rounds"].items():
        cells = [
            spread([each[key] for each in rounds]).text(form)
            for key, form in (
                ("images_per_s", ".0f"),
                ("p50_ms", ".1f"),
                ("p99_ms", ".0f"),
                ("cpu_ms", ".2f"),
            )
        ]
        rows.append([name, *cells])
    start, memory = spread(data["start_seconds"]), spread(data["memory_mb"])
    return "\n".join(
        [
            columns(rows),
            "",
            f"- from the start to the first answer {start.text('.1f')} s, with"
            f" {data['options']['workers']} workers",
            f"- memory of a worker after that {memory.text('.0f')} MB",
        ]
    )
