"""What `prepare` takes over of a file besides its pixels, as its options say."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from common.errors import ConfigError
from common.text import plural
from trainer.data.intake.groups import by_pattern, pattern_problems
from trainer.data.intake.levels import given_levels
from trainer.data.intake.metadata import BrokenSegmentsError, kinds, strip
from trainer.data.intake.names import Naming, make_naming, table_problems
from trainer.data.intake.pages import format_of, formats
from trainer.data.intake.record import KEPT, REMOVED, Intake, groups_in_words, levels_in_words
from trainer.data.pixels.treatment import (
    FULL_LEVELS,
    Encoded,
    Levels,
    RejectedError,
    is_narrow,
    open_image,
)
from trainer.data.prepare.encode import Rules, check_kind, encode
from trainer.data.prepare.input_files import FileReader, ImageFile, Inputs
from trainer.data.prepare.options import WriteOptions
from trainer.data.prepare.rejected import RejectedFile

TAG: Final = "tag:"
"""Beginning of a `--group-by` that names a tag."""

DARK_BITS: Final = 4
"""Bits fewer than those of the levels with which an image uses at most 1/16 of them."""

AS_BEFORE: Final[Mapping[str, Any]] = {
    "metadata": "keep",
    "names": "kept",
    "group_by": None,
    "levels": "full",
    "pages": "first",
    "test": 0.0,
}
"""Values of options with which a data set is as in versions that did not have them."""


@dataclass(frozen=True)
class IntakeRules:
    """How files are taken over; the same in every process."""

    remove: bool = True
    """Whether metadata are removed."""
    naming: Naming = field(default_factory=Naming)
    levels: Levels | None = None
    """Values of deep images that become 0 and 255; None is all that a file can hold."""
    window: bool = False
    """Whether the levels that a file itself names have precedence."""

    def encoded(
        self, data: bytes, file: ImageFile, rules: Rules
    ) -> tuple[Encoded, tuple[str, ...]]:
        """Return the image to write for a file, and the kinds of metadata that the file has.

        Raises:
            RejectedError: The file is not a usable image, or might keep metadata.
        """
        known = format_of(data)
        if known is None:
            return self.cleaned(data, encode(data, file.name, rules, self.levels))
        check_kind(data, file.name)
        most = rules.max_pixels
        single = known.single(data, file.page, most, self.levels, window=self.window)
        encoded = encode(single, "", rules, self.levels)
        if known.metadata:
            narrow = is_narrow(open_image(single))
            words = f"converted: {known.name}"
            encoded, own = replace(encoded, treatment=words, narrow=narrow), (known.metadata,)
            return encoded, own
        if encoded.data is single and single is not data:
            return self.cleaned(single, encoded)[0], kinds(data)
        return self.cleaned(data, encoded)

    def cleaned(self, data: bytes, encoded: Encoded) -> tuple[Encoded, tuple[str, ...]]:
        """Return an image without metadata, and the kinds that were removed.

        Args:
            data: Bytes of the file.
            encoded: The image to write: the same bytes, or the converted ones.

        Raises:
            RejectedError: Its segments are damaged, so that metadata might stay.
        """
        if not self.remove:
            return encoded, ()
        try:
            if encoded.data is not data:
                # An image that is encoded again has pixels alone.
                return encoded, kinds(data)
            stripped = strip(data)
        except BrokenSegmentsError as error:
            if encoded.data is not data:
                return encoded, ()
            raise RejectedError(
                f"{error}, so its metadata cannot be removed; --metadata keep accepts it"
            ) from error
        if stripped.data is data:
            return encoded, ()
        return replace(encoded, data=stripped.data), stripped.removed

    def without_key(self) -> "IntakeRules":
        """Return the same rules for processes that write; the listing has all new names."""
        return replace(self, naming=replace(self.naming, key=b""))

    def group(self, options: WriteOptions) -> Callable[[ImageFile], str] | None:
        """Return the function that finds the group of a file; None if there are no groups."""
        if options.group_by is None:
            return None
        if not options.group_by.startswith(TAG):
            of_name = by_pattern(options.group_by)
            return lambda file: of_name(file.name)
        tag, reader = options.group_by.removeprefix(TAG), FileReader(self.naming)

        def of_tag(file: ImageFile) -> str:
            data = reader.read(file)
            known = format_of(data)
            return known.tag(data, tag) if known else ""

        return of_tag

    def pages(self, inputs: Inputs, options: WriteOptions) -> Inputs:
        """Return inputs in which every image of a file of several is listed, if that is wanted."""
        if options.pages == "first":
            return inputs

        def files() -> Iterator[ImageFile | RejectedFile]:
            reader = FileReader(self.naming)
            for file in inputs.files():
                yield from [file] if isinstance(file, RejectedFile) else _each_page(file, reader)

        return replace(inputs, files=files)

    def record(
        self,
        found: Mapping[str, int],
        narrow: int,
        rules: Rules,
        groups: Mapping[str, int] | None,
    ) -> Intake:
        """Return the record of the intake for a manifest.

        Args:
            found: Images by kind of metadata.
            narrow: Number of deep images that use few levels.
            rules: How images were encoded.
            groups: See `Listing.groups`.
        """
        return Intake(
            REMOVED if self.remove else KEPT,
            dict(sorted(found.items())),
            self.naming.mode,
            groups is not None,
            self.levels,
            narrow,
            groups,
            (rules.short_side, rules.quality) if rules.short_side else None,
        )


def make_intake(options: WriteOptions, output: Path, environment: Mapping[str, str]) -> IntakeRules:
    """Parse the options of the intake.

    Raises:
        ConfigError: A value is invalid; lists all of them.
    """
    naming, problems = make_naming(options.names, options.name_key, environment)
    problems += table_problems(options.name_table, str(output))
    problems += pattern_problems(options.group_by)
    if options.group_by is not None and not options.group_by.removeprefix(TAG):
        problems.append("--group-by: is empty; name a pattern, or tag:NAME")
    levels = None
    try:
        levels = given_levels(options.levels)
    except ValueError as error:
        problems.append(f"--levels: {error}")
    if options.name_table and not naming.changes:
        problems.append("--name-table: is for --names hashed or numbered; names are kept")
    if problems:
        raise ConfigError(problems)
    remove = options.metadata == "remove"
    return IntakeRules(remove, naming, levels, options.levels == "window")


def _each_page(file: ImageFile, reader: FileReader) -> Iterator[ImageFile | RejectedFile]:
    stem, suffix = os.path.splitext(file.name)  # noqa: PTH122 - pathlib would change the name
    if suffix and not any(suffix.lower() in known.suffixes for known in formats()):
        yield file
        return
    try:
        data = reader.read(file)
        known = format_of(data)
        count = known.count(data) if known else 1
    except RejectedError as error:
        yield RejectedFile(file.split, file.name, str(error))
        return
    yield file
    for page in range(1, count):
        yield replace(file, name=f"{stem}#{page + 1}{suffix}", page=page)


def tell_narrow(
    narrow: int, such_as: str, levels: tuple[float, float] | None, depths: Mapping[int, int]
) -> None:
    """Warn of deep images that use few of the levels.

    Args:
        narrow: Their number.
        such_as: One of them.
        levels: Values that became 0 and 255.
        depths: Number of deep images by the highest bit that they use, as far as that is known.
    """
    if not narrow:
        return
    low, high = levels or FULL_LEVELS
    remedy = "see --levels"
    bits = sorted(depths)
    if bits and bits[-1] - bits[0] >= DARK_BITS:
        files = ", ".join(
            f"{plural(depths[n], 'image')} {f'of {n} bits' if n else 'of other values'}"
            for n in bits
        )
        remedy = f"the data set mixes {files}: --levels bits gives each image a range of its own"
    words = f"the values {low} to {high}" if low < high else "the bits that each image uses"
    print(
        f"warning: {plural(narrow, 'image')} of more than 8 bits, such as {such_as},"
        f" use at most 1/16 of the levels from black to white, which are {words}; {remedy}",
        file=sys.stderr,
    )


def tell_intake(intake: Intake | None) -> None:
    """Print the data in the files besides pixels, and their treatment."""
    if intake and intake.levels:
        print(f"images of more than 8 bits: {levels_in_words(intake.levels)}")
    if intake and intake.groups:
        print(groups_in_words(intake.groups))
    if intake and intake.found:
        print(f"metadata removed: {counted(intake.found)}")


def counted(found: Mapping[str, int]) -> str:
    """Return kinds of metadata and how many images have them, the most frequent first."""
    ordered: Iterable[tuple[str, int]] = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{kind} in {plural(count, 'image')}" for kind, count in ordered)
