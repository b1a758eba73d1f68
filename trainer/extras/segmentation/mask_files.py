"""Masks of a segmentation: found next to the images by name, checked, and stored as grey PNGs."""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import numpy as np
from PIL import Image

from common.errors import ConfigError
from trainer.data.pixels.treatment import TURNS, Encoded, RejectedError, bounded, damage
from trainer.data.prepare.input_files import ImageFile, in_either_form
from trainer.errors import DataError
from trainer.extras.segmentation.leaf import MASK

IGNORED: Final = 255
"""Value of pixels that count neither in the loss nor in a metric."""
_SIDEWAYS: Final = 5
"""First EXIF orientation that exchanges width and height."""
_DEPTH: Final = 24
"""Where a PNG has its bits per channel."""
LABELMAP: Final = "labelmap.txt"
"""File of CVAT with the colour of each class, in the folder of the masks or above it."""
_BORDER: Final = 224 << 16 | 224 << 8 | 192
"""Colour of pixels that do not count, in Pascal VOC's masks."""
_COLOURED: Final = ("P", "RGB", "RGBA")
_MODES: Final = ("L", "P", "1")
"""Pillow's modes of images whose values are classes; with a palette, its indices are."""


@dataclass(frozen=True)
class MaskFolder:
    """The masks of a data set; the same in every process."""

    folder: Path
    classes: int
    """Number of classes, with the background."""
    turned: str = "reject"
    """Which way up the mask of an image is that its EXIF turns: upright, stored, or reject if it is
    not clear."""

    colours: Mapping[int, int] = field(default_factory=dict)
    """Class of each colour, 65,536 red + 256 green + blue, where masks are coloured."""

    def path(self, name: str) -> Path:
        """Return the file of the mask of an image, given the image's path in its folder. A letter
        with an accent may be one character or two, as macOS stores it.
        """
        return in_either_form(self.folder, str(Path(name).with_suffix(".png")))

    def read(
        self, file: ImageFile, image: Encoded, *, resize: bool
    ) -> tuple[dict[str, bytes], int]:
        """See `TargetFiles.read`: the mask as a grey PNG, and the class other than the background
        that most of its pixels are of; 0 if all are background or do not count.
        """
        path = self.path(file.name)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read ({error.strerror}); run the same command again to continue"
            ) from error
        mask = self.opened(data, path.name)
        fitted = self._fitted(self._upright(mask, image), image, resize=resize)
        return features(_encoded(fitted)), _main_class(mask, self.classes)

    def opened(self, data: bytes, name: str) -> Image.Image:
        """Return a mask as a grey image whose values are classes.

        Raises:
            RejectedError: It is damaged, or has several channels.
        """
        with damage("has a damaged mask", f", {name}"):
            opened = Image.open(io.BytesIO(data), formats=("PNG",))
        if self.colours and opened.mode in _COLOURED:
            with bounded(opened), damage("has a damaged mask", f", {name}"):
                coloured = opened.convert("RGB")
            return self._of_colours(coloured)
        if opened.mode not in _MODES:
            raise RejectedError(
                f"has a mask in mode {opened.mode}; a mask is a PNG of one channel of 8 bits"
            )
        with bounded(opened), damage("has a damaged mask", f", {name}"):
            opened.load()
            # As raw values: a conversion would replace the indices of a palette by its colours.
            raw = opened.convert("L") if opened.mode == "1" else opened
            mask = Image.frombytes("L", raw.size, raw.tobytes())
        if opened.mode == "1":
            mask = mask.point(lambda value: value and 1)
        return self._unscaled(mask, data) if opened.mode == "L" else mask

    def _unscaled(self, mask: Image.Image, data: bytes) -> Image.Image:
        """Return a grey mask with the values of its file, which Pillow multiplies so that the
        highest one becomes 255. That one stays so if it is not a class.
        """
        depth = data[_DEPTH]
        if depth not in (2, 4):
            return mask
        highest = 2**depth - 1
        ignored = highest >= self.classes
        return mask.point(
            lambda value: value if ignored and value == IGNORED else value * highest // IGNORED
        )

    def _of_colours(self, mask: Image.Image) -> Image.Image:
        """Return a coloured mask as a grey image whose values are classes.

        Raises:
            RejectedError: A colour is that of no class.
        """
        red, green, blue = np.moveaxis(np.asarray(mask, np.int32), -1, 0)
        colours, places = np.unique(red << 16 | green << 8 | blue, return_inverse=True)
        strange = [colour for colour in colours.tolist() if colour not in self.colours]
        if strange:
            shown = ",".join(map(str, strange[0].to_bytes(3, "big")))
            raise RejectedError(f"has a mask with the colour {shown}, which {LABELMAP} has not")
        classes = np.array([self.colours[colour] for colour in colours.tolist()], np.uint8)
        return Image.fromarray(classes[places.reshape(red.shape)])

    def _upright(self, mask: Image.Image, image: Encoded) -> Image.Image:
        """Return a mask turned as its image was turned.

        Raises:
            RejectedError: It is not clear which way up it is.
        """
        low, high = cast("tuple[int, int]", mask.getextrema())
        if image.orientation == 1 or self.turned == "upright" or low == high:
            return mask
        if self.turned == "stored":
            return mask.transpose(TURNS[image.orientation])
        if image.orientation < _SIDEWAYS or image.width == image.height:
            raise RejectedError(
                "is turned by its EXIF, so it is not clear which way up its mask is; say it with"
                " --turned-images upright or stored"
            )
        return mask

    def _fitted(self, mask: Image.Image, image: Encoded, *, resize: bool) -> Image.Image:
        size = image.width, image.height
        if mask.size == size:
            return mask
        across, down = mask.width * image.height, mask.height * image.width
        if not resize or abs(across - down) > max(mask.size):
            raise RejectedError(
                f"has {size[0]} x {size[1]} pixels, but its mask {mask.width} x {mask.height}"
            )
        return mask.resize(size, Image.Resampling.NEAREST)


def read_colours(masks: Path, classes: Sequence[str]) -> dict[int, int]:
    """Return the class of each colour; none without a file of colours.

    Args:
        masks: Folder of the masks.
        classes: Class names, the background first.

    Raises:
        ConfigError: A label is not one of the classes.
        DataError: The file cannot be read.
    """
    path = next((p for p in (masks / LABELMAP, masks.parent / LABELMAP) if p.is_file()), None)
    if path is None:
        return {}
    colours = {_BORDER: IGNORED}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        for line in lines:
            if not line.strip() or line.startswith("#"):
                continue
            label, colour, *_ = line.split(":")
            value = int.from_bytes(bytes(map(int, colour.split(","))))
            if label not in classes and value:
                raise ConfigError([f"{path} has the label {label}, which --classes does not name"])
            colours[value] = list(classes).index(label) if label in classes else 0
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}); its lines are LABEL:R,G,B::") from error
    return colours


def features(mask: bytes) -> dict[str, bytes]:
    """Return the features of a record with a mask, a grey PNG."""
    return {MASK: mask, "image/segmentation/class/format": b"png"}


def stored_mask_fault(mask: bytes, width: int, height: int, classes: int) -> str | None:
    """Return the fault of the mask of a record, or None; see `TaskDescription.features`."""
    try:
        with damage("has a damaged mask"):
            image = Image.open(io.BytesIO(mask), formats=("PNG",))
            image.load()
        if image.mode != "L":
            return f"has a mask in mode {image.mode}, but must have a grey one of 8 bits"
        if image.size != (width, height):
            return f"has {width} x {height} pixels, but its mask {image.width} x {image.height}"
        _main_class(image, classes)
    except RejectedError as error:
        return str(error)
    return None


def _main_class(mask: Image.Image, classes: int) -> int:
    """Return the class other than the background that most pixels are of; 0 if there is none.

    Raises:
        RejectedError: A value is not a class.
    """
    counts = Counter({value: count for value, count in enumerate(mask.histogram()) if count})
    strange = sorted(value for value in counts if classes <= value != IGNORED)
    if strange:
        raise RejectedError(
            f"has a mask with the value {strange[0]}, which is not a class: classes are 0 to"
            f" {classes - 1}, and {IGNORED} for pixels that do not count"
        )
    del counts[0], counts[IGNORED]
    return min(counts, key=lambda value: (-counts[value], value), default=0)


def _encoded(mask: Image.Image) -> bytes:
    buffer = io.BytesIO()
    mask.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
