"""TIFFs with an image on each of several pages."""

from itertools import islice
from typing import Any

import numpy as np

from trainer.data.intake.levels import deep_values
from trainer.data.intake.tiff import alone, directories
from trainer.data.pixels.treatment import Levels, RejectedError, damage, open_image

_REDUCED = 1
"""Bit of the tag NewSubfileType of a page that is a smaller copy of another."""
_SUBFILE = 254
_MOST_PAGES = 10_000


class TiffPages:
    """See `PagedFormat`."""

    name = "page of a TIFF"
    suffixes = (".tif", ".tiff")
    metadata = ""

    def holds(self, begin: bytes) -> bool:
        """See `PagedFormat.holds`."""
        return begin.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"))

    def count(self, data: bytes) -> int:
        """See `PagedFormat.count`; pages that are smaller copies do not count."""
        return len(self._frames(data))

    def values(self, data: bytes, page: int, max_pixels: int) -> np.ndarray[Any, Any] | None:
        """See `PagedFormat.values`."""
        single = self.single(data, page, max_pixels, None, window=False)
        image = open_image(single, ("TIFF",))
        return None if image.width * image.height > max_pixels else deep_values(single, image)

    def single(
        self,
        data: bytes,
        page: int,
        max_pixels: int,  # noqa: ARG002 - `treat` checks it
        levels: Levels | None,  # noqa: ARG002 - `treat` applies them
        *,
        window: bool,  # noqa: ARG002 - a TIFF names none
    ) -> bytes:
        """See `PagedFormat.single`: the file itself if its first page is wanted."""
        if page == 0:
            return data
        frames = self._frames(data)
        if page >= len(frames):
            raise RejectedError("has fewer pages than when it was listed")
        with damage("has a damaged page"):
            return alone(data, frames[page])

    def tag(self, data: bytes, name: str) -> str:
        """See `PagedFormat.tag`: by its number, such as 315."""
        if not name.isdecimal():
            return ""
        with damage("has a damaged header"):
            return str(open_image(data, ("TIFF",)).tag_v2.get(int(name), ""))  # type: ignore[attr-defined]

    def _frames(self, data: bytes) -> list[int]:
        """Return the numbers of the pages, except smaller copies; the first always counts."""
        with damage("has a damaged page"):
            pages = enumerate(islice(directories(data), _MOST_PAGES))
            return [
                number
                for number, page in pages
                if number == 0 or not page.value(data, _SUBFILE) & _REDUCED
            ] or [0]
