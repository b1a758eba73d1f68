"""Image files of every kind, with the pixels that a person would see and what becomes of them."""

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageCms

from tests.trainer.support.data_sets.image_files import (
    HEIGHT,
    PNG,
    WIDTH,
    Pixels,
    chunk,
    exif,
    gradients,
    jpeg,
    lossless_jpeg,
    orientation,
    png,
    png_header,
    saved,
    with_segment,
    ycck_jpeg,
)


@dataclass(frozen=True)
class Sample:
    """A file, its picture, and the expected result."""

    data: bytes
    pixels: Pixels
    """uint8 [height, width, 3], upright, on white."""
    treatment: str
    kept: bool = False
    name: str = "a/b"


def samples() -> dict[str, Sample]:
    """One of each kind that is taken."""
    return _jpegs() | _turned() | _pngs() | _others()


def _jpegs() -> dict[str, Sample]:
    seen = gradients()
    grey = np.asarray(Image.fromarray(seen).convert("L"))
    grey_seen = np.stack([grey] * 3, 2)
    plain, kept = jpeg(seen), "copied untouched"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    mirrored = Image.fromarray(seen[:, ::-1])
    mpo = saved(Image.fromarray(seen), "MPO", save_all=True, append_images=[mirrored], quality=95)
    thumbnail = jpeg(gradients(8, 8)[::-1])
    broken_tag = exif(orientation(1), (282, 2, 4, b"abc\0"))
    return {
        "JPEG": Sample(plain, seen, kept, kept=True),
        "grey JPEG": Sample(jpeg(grey), grey_seen, kept, kept=True),
        "grey JPEG with a profile": Sample(
            jpeg(grey, icc_profile=profile), grey_seen, kept, kept=True
        ),
        "JPEG of halved colours": Sample(jpeg(seen, subsampling=2), seen, kept, kept=True),
        "JPEG in RGB": Sample(jpeg(seen, keep_rgb=True), seen, kept, kept=True),
        "JPEG with restarts": Sample(jpeg(seen, restart_marker_blocks=1), seen, kept, kept=True),
        "progressive JPEG": Sample(
            jpeg(seen, progressive=True), seen, "kept: progressive JPEG", kept=True
        ),
        "MPO": Sample(mpo, seen, kept, kept=True),
        "JPEG of one pixel": Sample(jpeg(seen[5:6, 7:8]), seen[5:6, 7:8], kept, kept=True),
        "JPEG of one row": Sample(jpeg(seen[20:21]), seen[20:21], kept, kept=True),
        "JPEG with bytes behind": Sample(plain + b"garbage" * 9, seen, kept, kept=True),
        "JPEG with zeros behind": Sample(plain + bytes(512), seen, kept, kept=True),
        "JPEG with padding": Sample(b"\xff\xd8\xff\xff\xff" + plain[3:], seen, kept, kept=True),
        "JPEG with garbage as EXIF": Sample(
            with_segment(plain, 0xE1, b"Exif\0\0" + bytes(range(7, 200, 3))), seen, kept, kept=True
        ),
        "JPEG with a broken tag": Sample(
            with_segment(plain, 0xE1, broken_tag), seen, kept, kept=True
        ),
        "JPEG with a thumbnail": Sample(
            with_segment(plain, 0xE1, exif(orientation(1)) + thumbnail), seen, kept, kept=True
        ),
        "JPEG named PNG": Sample(plain, seen, kept, kept=True, name="a/b.png"),
        "JPEG with capitals": Sample(plain, seen, kept, kept=True, name="a/b.JPEG"),
        "CMYK JPEG": Sample(
            saved(Image.fromarray(seen).convert("CMYK"), "JPEG", quality=95),
            seen,
            "converted: CMYK JPEG",
        ),
        "YCCK JPEG": Sample(ycck_jpeg(seen), seen, "converted: CMYK JPEG"),
        "lossless JPEG": Sample(
            lossless_jpeg(16), np.full([16, 16, 3], 128, np.uint8), "converted: JPEG"
        ),
    }


def _turned() -> dict[str, Sample]:
    """Return pixels that EXIF's orientation makes upright (CIPA DC-008, 4.6.4.A)."""
    seen = gradients()
    stored: dict[int, Callable[[Pixels], Pixels]] = {
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: lambda a: a.transpose(1, 0, 2),
        6: np.rot90,
        7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
        8: lambda a: np.rot90(a, 3),
    }
    turned = "converted: {}, turned upright".format
    found = {
        f"JPEG of orientation {value}": Sample(
            with_segment(jpeg(np.ascontiguousarray(store(seen))), 0xE1, exif(orientation(value))),
            seen,
            turned("JPEG"),
        )
        for value, store in stored.items()
    }
    lying = Image.fromarray(np.ascontiguousarray(np.rot90(seen)))
    tag = Image.Exif()
    tag[274] = 6
    block = exif(orientation(6), (282, 2, 4, b"abc\0"))
    late = saved(lying, "PNG")
    late = late[:-12] + chunk(b"eXIf", exif(orientation(6))[6:]) + late[-12:]
    for strange in (0, 9):
        found[f"JPEG of orientation {strange}"] = Sample(
            with_segment(jpeg(seen), 0xE1, exif(orientation(strange))),
            seen,
            "copied untouched",
            kept=True,
        )
    return {
        **found,
        "turned JPEG with a broken tag": Sample(
            with_segment(jpeg(np.asarray(lying)), 0xE1, block), seen, turned("JPEG")
        ),
        "turned PNG": Sample(saved(lying, "PNG", exif=tag), seen, turned("PNG")),
        "turned PNG, which says so at its end": Sample(late, seen, turned("PNG")),
        "turned TIFF": Sample(saved(lying, "TIFF", exif=tag), seen, turned("TIFF")),
        "turned WebP": Sample(saved(lying, "WEBP", exif=tag, lossless=True), seen, turned("WEBP")),
    }


def _pngs() -> dict[str, Sample]:
    seen = gradients()
    image = Image.fromarray(seen)
    grey = np.asarray(image.convert("L"))
    grey_seen = np.stack([grey] * 3, 2)
    kept = "kept: PNG"
    few = image.quantize(9)
    black = image.convert("1")
    # 0 to 15, two pixels a byte.
    coarse = (grey >> 4).astype(np.uint8)
    nibbles = png((coarse[:, 0::2] << 4) | coarse[:, 1::2], 4, 0)
    nibbles = PNG + png_header(WIDTH, HEIGHT, 4, 0) + nibbles[33:]
    wide = (np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) * 27).astype(np.uint16)
    rgb16 = (seen.astype(np.uint16) * 256 + 200).astype(">u2")
    mirrored = Image.fromarray(seen[:, ::-1])
    return {
        "PNG": Sample(saved(image, "PNG"), seen, kept, kept=True),
        "grey PNG": Sample(saved(image.convert("L"), "PNG"), grey_seen, kept, kept=True),
        "interlaced PNG": Sample(png(seen, interlaced=True), seen, kept, kept=True),
        "palette PNG": Sample(saved(few, "PNG"), np.asarray(few.convert("RGB")), kept, kept=True),
        "1-bit PNG": Sample(saved(black, "PNG"), np.asarray(black.convert("RGB")), kept, kept=True),
        "4-bit PNG": Sample(nibbles, np.stack([coarse * 17] * 3, 2), kept, kept=True),
        "PNG of one pixel": Sample(
            saved(Image.fromarray(seen[5:6, 7:8]), "PNG"), seen[5:6, 7:8], kept, kept=True
        ),
        "PNG with bytes behind": Sample(saved(image, "PNG") + b"garbage", seen, kept, kept=True),
        "PNG named JPEG": Sample(saved(image, "PNG"), seen, kept, kept=True, name="a/b.jpg"),
        "animated PNG": Sample(
            saved(image, "PNG", save_all=True, append_images=[mirrored]), seen, kept, kept=True
        ),
        "PNG without its end": Sample(saved(image, "PNG")[:-12], seen, "converted: PNG"),
        "grey PNG of 16 bits": Sample(
            saved(Image.fromarray(wide), "PNG"),
            np.stack([(wide / 257).round().astype(np.uint8)] * 3, 2),
            "converted: 16-bit PNG",
        ),
        "PNG of 16 bits": Sample(png(rgb16, 16), seen, "converted: 16-bit PNG"),
        **_transparent(),
    }


def _transparent() -> dict[str, Sample]:
    """The left half is there, the right half is not and would show something else."""
    seen = gradients()
    alpha = np.zeros([HEIGHT, WIDTH], np.uint8)
    alpha[:, : WIDTH // 2] = 255
    on_white = seen.copy()
    on_white[:, WIDTH // 2 :] = 255
    rgba = Image.fromarray(np.dstack([seen, alpha]))
    grey = Image.fromarray(seen).convert("L")
    grey_on_white = np.where(alpha[:, :, None], np.asarray(grey)[:, :, None], 255)
    both = Image.merge("LA", [grey, Image.fromarray(alpha)])
    palette = Image.fromarray(np.where(alpha, 1, 0).astype(np.uint8), "P")
    palette.putpalette([200, 0, 0, 0, 0, 200])
    shown = np.where(alpha[:, :, None], [0, 0, 200], [255, 255, 255]).astype(np.uint8)
    png_treatment = "converted: PNG with transparency"
    return {
        "PNG with transparency": Sample(saved(rgba, "PNG"), on_white, png_treatment),
        "grey PNG with transparency": Sample(
            saved(both, "PNG"), np.repeat(grey_on_white, 3, 2).astype(np.uint8), png_treatment
        ),
        "palette PNG with transparency": Sample(
            saved(palette, "PNG", transparency=0), shown, png_treatment
        ),
        "transparent PNG of 16 bits": Sample(
            png((np.dstack([seen, alpha]).astype(np.uint16) * 257).astype(">u2"), 16, 6),
            on_white,
            "converted: 16-bit PNG",
        ),
        "WebP with transparency": Sample(
            saved(rgba, "WEBP", lossless=True, exact=True),
            on_white,
            "converted: WEBP with transparency",
        ),
        "GIF with transparency": Sample(
            saved(palette, "GIF", transparency=0), shown, "converted: GIF with transparency"
        ),
    }


def _others() -> dict[str, Sample]:
    seen = gradients()
    image = Image.fromarray(seen)
    mirrored = Image.fromarray(seen[:, ::-1])
    several = {"save_all": True, "append_images": [mirrored]}
    wide = (np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) * 27).astype(np.uint16)
    wide_seen = np.stack([(wide / 257).round().astype(np.uint8)] * 3, 2)
    few = image.quantize(64)
    few_seen = np.asarray(few.convert("RGB"))
    first = ", first of several frames"
    return {
        "lossy WebP": Sample(saved(image, "WEBP", quality=95), seen, "converted: WEBP"),
        "lossless WebP": Sample(saved(image, "WEBP", lossless=True), seen, "converted: WEBP"),
        "animated WebP": Sample(
            saved(image, "WEBP", lossless=True, **several), seen, f"converted: WEBP{first}"
        ),
        "BMP": Sample(saved(image, "BMP"), seen, "converted: BMP"),
        "GIF": Sample(saved(few, "GIF"), few_seen, "converted: GIF"),
        "animated GIF": Sample(saved(few, "GIF", **several), few_seen, f"converted: GIF{first}"),
        "GIF with a long comment": Sample(
            saved(few, "GIF", comment=b"x" * 70_000), few_seen, "converted: GIF"
        ),
        "TIFF": Sample(saved(image, "TIFF"), seen, "converted: TIFF"),
        "TIFF of 16 bits": Sample(
            saved(Image.fromarray(wide), "TIFF"), wide_seen, "converted: TIFF"
        ),
        "TIFF of several pages": Sample(
            saved(image, "TIFF", **several), seen, f"converted: TIFF{first}"
        ),
        "CMYK TIFF": Sample(saved(image.convert("CMYK"), "TIFF"), seen, "converted: CMYK TIFF"),
    }


def unusable() -> dict[str, tuple[str, bytes, str]]:
    """Files other than usable images: name, bytes, and the reason of their refusal."""
    image = Image.fromarray(gradients())
    whole, whole_png = jpeg(gradients()), saved(image, "PNG")
    thumbnail = jpeg(gradients(8, 8))
    with_thumbnail = with_segment(whole, 0xE1, exif(orientation(1)) + thumbnail)
    header = with_thumbnail.index(thumbnail) + len(thumbnail)
    sideways = Image.fromarray(np.zeros([1, 66_000, 4], np.uint8))
    huge_webp = bytearray(saved(image, "WEBP", save_all=True, append_images=[image.rotate(180)]))
    huge_webp[24:30] = struct.pack("<I", 16_382)[:3] * 2
    floats = np.zeros([HEIGHT, WIDTH], np.float32)
    unknown = "is not an image of a known kind"
    cut = "cannot be decoded"
    return {
        "nothing": ("a.jpg", b"", "is empty"),
        "a text": ("a.txt", b"hello", unknown),
        "a page": ("a.jpg", b"<!DOCTYPE html><html><body>404</body></html>", unknown),
        "a JPEG named as a text": ("a.txt", whole, "holds a JPEG, but .txt is not an image's"),
        "a part of a JPEG": ("a.jpg", whole[: len(whole) * 6 // 10], cut),
        "a part of a progressive JPEG": ("a.jpg", jpeg(gradients(), progressive=True)[:-99], cut),
        "a JPEG without its end": ("a.jpg", whole[:-2], cut),
        "a part of a PNG": ("a.png", whole_png[: len(whole_png) * 6 // 10], cut),
        "a PNG with a changed byte": (
            "a.png",
            whole_png[:200] + bytes([whole_png[200] ^ 255]) + whole_png[201:],
            cut,
        ),
        "a part of a WebP": ("a.webp", saved(image, "WEBP")[:-60], "has a damaged header"),
        "a part of a GIF": ("a.gif", saved(image, "GIF")[:900], cut),
        "a part of a TIFF": ("a.tif", saved(image, "TIFF")[:900], cut),
        "a header of a JPEG": ("a.jpg", whole[: whole.index(b"\xff\xda")], cut),
        "a header of a PNG": ("a.png", whole_png[:33], "has a damaged header"),
        "a PNG without pixels": ("a.png", whole_png[:33] + chunk(b"IEND", b""), "has no pixels"),
        "a first byte of each": ("a.jpg", b"\xff\xd8\xff", "has a damaged header"),
        "a thumbnail and half the image": ("a.jpg", with_thumbnail[: header + 900], cut),
        "a thumbnail and no image": ("a.jpg", with_thumbnail[:header], "has a damaged header"),
        "an absurd size": (
            "a.png",
            PNG + png_header(60_000, 60_000) + whole_png[33:],
            "has 60000 x 60000 pixels; at most 50,000,000 are accepted",
        ),
        "an absurd animation": ("a.webp", bytes(huge_webp), "has 16383 x 16383 pixels"),
        "a bomb": ("a.png", saved(Image.new("L", (8000, 8000)), "PNG"), "has 8000 x 8000 pixels"),
        "floats": ("a.tif", saved(Image.fromarray(floats), "TIFF"), "has pixels of 32 bits"),
        "32 bits": (
            "a.tif",
            saved(Image.fromarray(floats.astype(np.int32)), "TIFF"),
            "has pixels of 32 bits",
        ),
        "wider than a JPEG can be": ("a.png", saved(sideways, "PNG"), "cannot be converted"),
    }
