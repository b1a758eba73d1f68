"""Images with an identifier in every place that can hold a text."""

import itertools
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from PIL import Image, ImageCms, PngImagePlugin

from tests.trainer.support.data_sets.image_files import chunk, saved, segment

SIZE = 24, 40
"""Height and width, in pixels."""


@dataclass
class Planted:
    """Encoded images by file name, and the texts that were put into them."""

    files: dict[str, bytes] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def text(self, place: str) -> str:
        """Return a text that was put nowhere else."""
        text = f"Doe{next(self._numbers):03}{place}"
        self.texts.append(text)
        return text

    def found_in(self, data: bytes) -> list[str]:
        """Return the texts that some bytes contain, in UTF-8 or UTF-16, in any case."""
        data, codes = data.lower(), ("utf-8", "utf-16-le", "utf-16-be")
        return [t for t in self.texts if any(t.lower().encode(code) in data for code in codes)]


def pixels(number: int = 0, *, grey: bool = False) -> Image.Image:
    """Return an image that differs from those of other numbers."""
    shape = SIZE if grey else (*SIZE, 3)
    noise = np.random.default_rng(number).integers(0, 256, shape, np.uint8)
    return Image.fromarray(noise)


def planted() -> Planted:
    """Return files of all kinds."""
    made = Planted()
    for build in (_jpeg, _progressive, _png, _webp, _gif, _tiff):
        build(made)
    return made


def profile(text: str) -> bytes:
    """Return a colour profile that is described by a text, with a tag of unknown meaning."""
    plain = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    count = int.from_bytes(plain[128:132], "big")
    entries = [struct.unpack_from(">4sII", plain, 132 + 12 * n) for n in range(count)]
    tags = {name: plain[at : at + size] for name, at, size in entries}
    wide = text.encode("utf-16-be")
    tags[b"desc"] = b"mluc" + struct.pack(">3I4s2I", 0, 1, 12, b"enUS", len(wide), 28) + wide
    tags[b"dmnd"] = b"text" + bytes(4) + text.encode() + b"\0"
    tags[b"priv"] = b"data" + bytes(4) + text.encode()
    at, table, body = 132 + 12 * len(tags), b"", b""
    for name, content in tags.items():
        table += struct.pack(">4sII", name, at + len(body), len(content))
        body += content + bytes(-len(content) % 4)
    whole = plain[4:128] + struct.pack(">I", len(tags)) + table + body
    return struct.pack(">I", len(whole) + 4) + whole


def exif(made: Planted, place: str) -> bytes:
    """Return an EXIF block with texts, some in UTF-16, and a thumbnail with a comment."""
    block = Image.Exif()
    block[0x010E] = made.text(f"{place}description")
    block[0x013B] = made.text(f"{place}artist")
    block[0x9C9C] = made.text(f"{place}xpcomment").encode("utf-16-le")
    details = block.get_ifd(0x8769)
    details[0x9286] = b"UNICODE\0" + made.text(f"{place}usercomment").encode("utf-16-le")
    details[0x927C] = made.text(f"{place}makernote").encode()
    block.get_ifd(0x8825)[0x001C] = made.text(f"{place}gpsarea").encode()
    return block.tobytes()


def _jpeg(made: Planted) -> None:
    plain = saved(pixels(1), "JPEG", quality=92, subsampling=0)
    scan = plain.index(b"\xff\xda")
    thumbnail = saved(pixels(2), "JPEG", comment=made.text("jpegjfxx").encode())
    name = made.text("jpegadobe").encode()
    before = [
        segment(0xE0, b"JFIF\0\1\2\0\0\1\0\1" + b"\x0a\1" + made.text("jfif").encode().ljust(30)),
        segment(0xE0, b"JFXX\0\x10" + thumbnail),
        segment(0xE1, exif(made, "jpeg")),
        segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x>" + made.text("jpegxmp").encode()),
        segment(0xE1, b"http://ns.adobe.com/xmp/extension/\0" + made.text("jpegxmp2").encode()),
        segment(0xE2, b"ICC_PROFILE\0\1\1" + profile(made.text("jpegicc"))),
        segment(0xE2, b"MPF\0" + made.text("jpegmpf").encode()),
        segment(0xED, b"Photoshop 3.0\x008BIM" + made.text("jpegiptc").encode()),
        segment(0xE5, made.text("jpegapp5").encode("utf-16-le")),
        segment(0xEC, b"Ducky" + made.text("jpegducky").encode()),
        segment(0xEE, b"Adobe\0\x64\0\0\0\0\1" + name),
        segment(0xEF, made.text("jpegapp15").encode("utf-16-be")),
        segment(0xFE, made.text("jpegcomment").encode()),
        segment(0xFE, made.text("jpegcommentwide").encode("utf-16-le")),
        made.text("jpegbetween").encode(),
    ]
    after = segment(0xFE, made.text("jpegafterscan").encode())
    unused = segment(0xDB, b"\3" + made.text("jpegunusedtable").encode().ljust(64))
    replaced = segment(0xDB, b"\0" + made.text("jpegreplacedtable").encode().ljust(64))
    lines = segment(0xDC, made.text("jpegdnl").encode())
    surplus = made.text("jpegsurplus").encode("utf-16-le")
    made.files["plain.jpg"] = (
        plain[:2] + b"".join(before) + unused + replaced + plain[20:scan] + plain[scan:-2] + surplus
        + lines + after + plain[-2:]
        + made.text("jpegbehind").encode() + thumbnail
    )  # fmt: skip


def _progressive(made: Planted) -> None:
    plain = saved(pixels(3, grey=True), "JPEG", progressive=True)
    parts = plain.split(b"\xff\xda")
    comments = [segment(0xFE, made.text(f"scan{n}").encode()) for n in range(2)]
    surplus = made.text("firstscan").encode()
    joined = parts[0] + comments[0] + b"\xff\xda" + parts[1] + surplus + comments[1]
    made.files["progressive.jpeg"] = joined + b"".join(b"\xff\xda" + part for part in parts[2:])


def _png(made: Planted) -> None:
    info = PngImagePlugin.PngInfo()
    info.add_text("Author", made.text("pngtext"))
    info.add_text(made.text("pngkeyword"), "value")
    info.add_text("Compressed", made.text("pngztxt"), zip=True)
    info.add_itxt("Title", made.text("pngitxt"), "de", made.text("pngtranslated"))
    info.add_itxt("XML:com.adobe.xmp", made.text("pngxmp"))
    plain = saved(pixels(4), "PNG", pnginfo=info, exif=exif(made, "png"))
    colours = chunk(
        b"iCCP",
        made.text("pngiccname").encode() + b"\0\0" + zlib.compress(profile(made.text("pngicc"))),
    )
    early = b"".join(
        (
            colours,
            chunk(b"tIME", b"\7\xea\1\2\3\4\5"),
            chunk(b"sPLT", made.text("pngsplt").encode() + b"\0\x08"),
            chunk(b"prVt", made.text("pngprivate").encode("utf-16-be")),
            chunk(b"PLTE", made.text("pngpalette").encode().ljust(24)),
            chunk(b"cHRM", made.text("pngchrm").encode().ljust(32)),
        )
    )
    late = chunk(b"IDAT", made.text("pngidat").encode())
    late += chunk(b"tEXt", b"Comment\0" + made.text("pnglate").encode())
    made.files["text.png"] = (
        plain[:33] + early + plain[33:-12] + late + chunk(b"IEND", made.text("pngend").encode())
        + made.text("pngbehind").encode()
    )  # fmt: skip


def _webp(made: Planted) -> None:
    plain = saved(
        pixels(5),
        "WEBP",
        lossless=True,
        exif=exif(made, "webp"),
        xmp=made.text("webpxmp").encode(),
        icc_profile=profile(made.text("webpicc")),
    )
    text = made.text("webpother").encode()
    more = b"NOTE" + struct.pack("<I", len(text)) + text + bytes(len(text) % 2)
    whole = b"RIFF" + struct.pack("<I", len(plain) + len(more) - 8) + plain[8:] + more
    made.files["picture.webp"] = whole + made.text("webpbehind").encode()


def _gif(made: Planted) -> None:
    plain = saved(pixels(6).quantize(16), "GIF", comment=made.text("gifcomment").encode())
    text = made.text("gifxmp").encode()
    own = b"\x21\xff\x0bXMP DataXMP" + bytes((len(text),)) + text + b"\0"
    note = made.text("gifapplication").encode()
    other = b"\x21\xff\x0bAPPLICATION" + bytes((len(note),)) + note + b"\0"
    words = made.text("gifplain").encode()
    shown = b"\x21\x01\x0c" + bytes(12) + bytes((len(words),)) + words + b"\0"
    behind = made.text("gifbehind").encode()
    made.files["drawn.gif"] = plain[:-1] + own + other + shown + b"\x3b" + behind


def _tiff(made: Planted) -> None:
    tags = {270: "description", 305: "software", 315: "artist", 316: "host", 33432: "copyright"}
    info: dict[int, str | bytes] = {tag: made.text(f"tiff{name}") for tag, name in tags.items()}
    info |= {tag: made.text(f"tiff{tag}").encode() for tag in (700, 33723, 65000)}
    made.files["scan.tif"] = saved(
        pixels(7), "TIFF", tiffinfo=info, icc_profile=profile(made.text("tifficc"))
    )
