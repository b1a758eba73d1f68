"""Bytes of image files, also of kinds that Pillow does not write."""

import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[Any]
HEIGHT, WIDTH = 40, 60


def gradients(height: int = HEIGHT, width: int = WIDTH) -> Pixels:
    """Red grows to the right and green downwards, so that every flip and turn is seen, and a JPEG
    keeps them within a few levels.
    """
    y, x = np.mgrid[0:height, 0:width]
    red, green = 255 * x / max(width - 1, 1), 255 * y / max(height - 1, 1)
    found: Pixels = np.stack([red, green, (red + green) / 2], 2).round().astype(np.uint8)
    return found


def noise(seed: int, size: tuple[int, int] = (20, 20)) -> Image.Image:
    """An image of noise of a width and a height."""
    shape = (*size[::-1], 3)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8))


def save(path: Path, image: Image.Image | Pixels, **options: Any) -> Path:
    """Write the file of an image, and the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **options)
    return path


def write(path: Path, content: Any) -> None:
    """Write a text, or plain data as JSON, and the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def saved(image: Image.Image | Pixels, kind: str, **options: Any) -> bytes:
    """Encode an image."""
    buffer = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(
        buffer, kind, **options
    )
    return buffer.getvalue()


def jpeg(pixels: Pixels, **options: Any) -> bytes:
    return saved(pixels, "JPEG", **{"quality": 95, "subsampling": 0, **options})


def segment(marker: int, content: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def with_segment(data: bytes, marker: int, content: bytes) -> bytes:
    """A JPEG with a segment more, right at its start."""
    return data[:2] + segment(marker, content) + data[2:]


def exif(*entries: tuple[int, int, int, bytes]) -> bytes:
    """An EXIF block of tags, types, counts and values in 4 bytes."""
    rows = b"".join(struct.pack("<HHI", *entry[:3]) + entry[3] for entry in entries)
    return b"Exif\0\0II*\0" + struct.pack("<IH", 8, len(entries)) + rows + struct.pack("<I", 0)


def orientation(value: int) -> tuple[int, int, int, bytes]:
    return (274, 3, 1, struct.pack("<I", value))


def chunk(kind: bytes, content: bytes) -> bytes:
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


PNG = b"\x89PNG\r\n\x1a\n"
INTERLACED = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
              (0, 1, 1, 2))  # fmt: skip


def png_header(width: int, height: int, depth: int = 8, colours: int = 2, passes: int = 0) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, passes))


def png(pixels: Pixels, depth: int = 8, colours: int = 2, *, interlaced: bool = False) -> bytes:
    """A PNG as Pillow writes none: interlaced, or 16 bits of three channels.

    Args:
        pixels: uint8 or big-endian uint16, [height, width] or [height, width, channels].
        depth: bits of a sample.
        colours: 0 grey, 2 RGB, 6 RGBA.
        interlaced: Adam7.
    """
    height, width = pixels.shape[:2]
    parts = [
        pixels[top::down, left::right]
        for left, top, right, down in (INTERLACED if interlaced else [(0, 0, 1, 1)])
    ]
    rows = b"".join(b"\0" + row.tobytes() for part in parts if part.size for row in part)
    header = png_header(width, height, depth, colours, int(interlaced))
    return PNG + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def lossless_jpeg(side: int) -> bytes:
    """A lossless JPEG (ITU-T T.81, annex H) of a grey square: every difference has the code 0."""
    return (
        b"\xff\xd8"
        + segment(0xC4, bytes([0, 1, *[0] * 15, 0]))
        + segment(0xC3, struct.pack(">BHHB", 8, side, side, 1) + bytes([1, 0x11, 0]))
        + segment(0xDA, bytes([1, 1, 0, 1, 0, 0]))
        + bytes(side * side // 8)
        + b"\xff\xd9"
    )


def ycck_jpeg(pixels: Pixels) -> bytes:
    """A CMYK JPEG as Photoshop writes it: all inverted, and the colours as brightness and two
    differences, which a byte of the Adobe segment says.
    """
    stored = Image.fromarray(255 - pixels).convert("YCbCr")
    # Pillow inverts images that it saves as CMYK.
    channels = [Image.fromarray(255 - np.asarray(channel)) for channel in stored.split()]
    black = Image.new("L", stored.size, 0)
    data = saved(Image.merge("CMYK", [*channels, black]), "JPEG", quality=95)
    transform = data.index(b"Adobe") + 11
    return data[:transform] + b"\x02" + data[transform + 1 :]
