"""The cost of removing metadata from photographs like ImageNet's
(tools/benchmarks/photos.py), by the way they are encoded, compared with decoding them by Pillow.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from PIL import Image

from tools.benchmarks.measure import BenchmarkOptions, read_samples, table, take_turns
from tools.benchmarks.photos import crops
from trainer.config import Positive
from trainer.data.intake.metadata import strip
from trainer.distributed.communicator import Alone

DECODED: Final = "decode a baseline JPEG"
_KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "baseline JPEG": {},
    "JPEG with bytes behind it": {"behind": b"text"},
    "JPEG with restarts": {"restart_marker_rows": 1},
    "progressive JPEG": {"progressive": True},
    "PNG": {"format": "PNG"},
}


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of removing metadata from a photograph, compared with decoding it."""

    rounds: Annotated[int, Positive] = 3
    """Number of turns of each contender."""

    count: Annotated[int, Positive] = 4
    """Number of photographs."""


def measure(options: Options) -> dict[str, Any]:
    """Measure all contenders in turns, with one thread."""
    photos = [(image, quality) for _, image, quality in crops(options.count)]
    contenders: dict[str, Callable[[], int]] = {}
    for kind, how in _KINDS.items():
        files = [_saved(image, quality, **how) for image, quality in photos]
        contenders[f"remove: {kind}"] = _each(files, strip)
    plain = [_saved(image, quality) for image, quality in photos]
    contenders[DECODED] = _each(plain, lambda data: Image.open(io.BytesIO(data)).load())
    mean = sum(map(len, plain)) / len(plain)
    return {"samples": take_turns(contenders, options.rounds, Alone()), "mean_bytes": mean}


def show(data: Mapping[str, Any]) -> str:
    """Format the rounds as a table."""
    samples = read_samples(data["samples"])
    return table(samples, "image", [DECODED])


def _saved(
    image: Image.Image,
    quality: int,
    behind: bytes = b"",
    format: str = "JPEG",  # noqa: A002 - as Pillow calls it
    **options: Any,
) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, quality=quality, **options)
    data = buffer.getvalue()
    return data[:-2] + behind + data[-2:] if behind else data


def _each(files: Sequence[bytes], work: Callable[[bytes], object]) -> Callable[[], int]:
    def each() -> int:
        for data in files:
            work(data)
        return len(files)

    return each
