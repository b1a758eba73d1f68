"""Which decoders notice that a JPEG is damaged, and what they cost.

Photographs like ImageNet's (benchmarks/photos.py), each damaged in several ways behind its headers
and with its end marker in place, as a faulty disk or an interrupted and completed transfer leaves
them. JPEG has no checksums. libjpeg warns of data that do not fit and returns an image; a decoder
may raise an error for such a warning. simplejpeg, which does, is measured if it is installed:

    uv run --with simplejpeg python -m benchmarks damage
"""

import io
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, Final

import tensorflow as tf
from PIL import Image

from benchmarks.measure import BenchmarkOptions, columns, read_samples, spread, take_turns
from benchmarks.photos import crops
from common.program import load
from trainer.config import Positive
from trainer.distributed.communicator import Alone

STRICT: Final = "simplejpeg, strict"
_END: Final = b"\xff\xd9"


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Damaged JPEGs that decoders notice, and CPU-milliseconds of an undamaged one."""

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each decoder."""

    count: Annotated[int, Positive] = 80
    """Number of photographs."""

    seed: int = 0
    """Seed of the damage."""


def begin_of_pixels(data: bytes) -> int:
    """Return where the first scan of a JPEG begins, behind its header."""
    at = 2
    while data[at + 1] != 0xDA:
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")


def damaged(data: bytes, source: random.Random) -> dict[str, bytes]:
    """Return a JPEG as it is, and damaged in each of the ways that are tried."""
    begin, end = begin_of_pixels(data), len(data) - len(_END)
    place = source.randrange(begin, end - 1000)
    flipped = bytearray(data)
    flipped[source.randrange(begin, end)] ^= 1 << source.randrange(8)
    return {
        "nothing is damaged": data,
        "the second half is missing": data[: (begin + end) // 2] + _END,
        "512 bytes are missing": data[:place] + data[place + 512 :],
        "1,000 bytes are zeros": data[:place] + bytes(1000) + data[place + 1000 :],
        "a bit is flipped": bytes(flipped),
    }


def _with_pillow(data: bytes) -> None:
    Image.open(io.BytesIO(data)).load()


def _with_tensorflow(data: bytes) -> None:
    tf.io.decode_jpeg(data, try_recover_truncated=False, acceptable_fraction=1.0)


def decoders() -> dict[str, Callable[[bytes], object]]:
    """Return the decoders, each of which raises an error for an image that it rejects."""
    found: dict[str, Callable[[bytes], object]] = {
        "Pillow": _with_pillow,
        "TensorFlow": _with_tensorflow,
    }
    if find_spec("simplejpeg"):
        found[STRICT] = load("simplejpeg:decode_jpeg")
    return found


def _rejects(decode: Callable[[bytes], object], data: bytes) -> bool:
    try:
        decode(data)
    except (OSError, SyntaxError, ValueError, tf.errors.OpError):
        return True
    return False


def measure(options: Options) -> dict[str, Any]:
    """Count the damaged images that each decoder rejects, and measure the whole ones in turns."""
    source, buffers = random.Random(options.seed), list[bytes]()
    for _, image, quality in crops(options.count):
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=quality)
        buffers.append(buffer.getvalue())
    kinds: dict[str, list[bytes]] = {}
    for data in buffers:
        for kind, content in damaged(data, source).items():
            kinds.setdefault(kind, []).append(content)
    rejected = {
        name: {kind: sum(_rejects(decode, one) for one in all_) for kind, all_ in kinds.items()}
        for name, decode in decoders().items()
    }

    def all_of(decode: Callable[[bytes], object]) -> Callable[[], int]:
        return lambda: len([decode(data) for data in buffers])

    turns = {name: all_of(decode) for name, decode in decoders().items()}
    samples = take_turns(turns, options.rounds, Alone())
    return {"images": options.count, "rejected": rejected, "samples": samples}


def show(data: Mapping[str, Any]) -> str:
    """Format the table."""
    samples, names = read_samples(data["samples"]), list(data["rejected"])
    rows = [
        [kind, *(f"{data['rejected'][name][kind]} of {data['images']}" for name in names)]
        for kind in data["rejected"][names[0]]
    ]
    cost = [spread([sample.cpu_ms for sample in samples[name]]).text() for name in names]
    return columns([["rejected if", *names], *rows, ["CPU-ms of a whole image", *cost]])
