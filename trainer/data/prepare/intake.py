"""What `prepare` takes over of a file besides its pixels, as its options say."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from common.errors import ConfigError
from common.text import plural
from trainer.data.intake.groups import by_pattern, pattern_problems
from trainer.data.intake.metadata import BrokenSegmentsError, kinds, strip
from trainer.data.intake.names import Naming, make_naming, table_problems
from trainer.data.intake.record import IN_PLACE, KEPT, REMOVED, Intake
from trainer.data.pixels.treatment import Encoded, RejectedError
from trainer.data.prepare.input_files import ImageFile
from trainer.data.prepare.options import WriteOptions

AS_BEFORE: Final[Mapping[str, Any]] = {"metadata": "keep", "names": "kept", "group_by": None}
"""Values of options with which a data set is as in versions that did not have them."""


@dataclass(frozen=True)
class IntakeRules:
    """How files are taken over; the same in every process."""

    remove: bool = True
    """Whether metadata are removed."""
    naming: Naming = field(default_factory=Naming)
    grouped: bool = False

    def cleaned(self, data: bytes, encoded: Encoded) -> tuple[Encoded, tuple[str, ...]]:
        """Return an image without metadata, and the kinds of those that its file has.

        Args:
            data: Bytes of the file.
            encoded: The image to write: the same bytes, or what they were converted to.

        Raises:
            RejectedError: Its segments are damaged, so that metadata might stay.
        """
        try:
            if encoded.data is not data or not self.remove:
                # What is encoded again has pixels alone.
                return encoded, kinds(data)
            stripped = strip(data)
        except BrokenSegmentsError as error:
            if encoded.data is not data or not self.remove:
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
        of_name = by_pattern(options.group_by)
        return lambda file: of_name(file.name)

    def record(self, found: Mapping[str, int]) -> Intake:
        """Return what a manifest says of the intake, given the images by kind of metadata."""
        return Intake(
            REMOVED if self.remove else KEPT,
            dict(sorted(found.items())),
            self.naming.mode,
            self.grouped,
        )


def make_intake(options: WriteOptions, output: Path, environment: Mapping[str, str]) -> IntakeRules:
    """Parse the options of the intake.

    Raises:
        ConfigError: A value is invalid; lists all of them.
    """
    naming, problems = make_naming(options.names, options.name_key, environment)
    problems += table_problems(options.name_table, str(output))
    problems += pattern_problems(options.group_by)
    if options.name_table and not naming.changes:
        problems.append("--name-table: is for --names hashed or numbered; names are kept")
    if problems:
        raise ConfigError(problems)
    return IntakeRules(options.metadata == "remove", naming, options.group_by is not None)


def tell_intake(intake: Intake | None) -> None:
    """Print what was found in the files besides pixels, and what became of it."""
    if intake and intake.found:
        what = {REMOVED: "removed", KEPT: "kept", IN_PLACE: "in the records"}[intake.metadata]
        print(f"metadata {what}: {counted(intake.found)}")


def counted(found: Mapping[str, int]) -> str:
    """Return kinds of metadata with the number of images that have them, the most frequent first."""
    ordered: Iterable[tuple[str, int]] = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{kind} in {plural(count, 'image')}" for kind, count in ordered)
