"""The interface between files of records and all that read them. No TensorFlow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from trainer.data.example import BrokenRecordError
from trainer.data.manifest import Shard


class BrokenPartError(BrokenRecordError):
    """Records that are damaged together, so that no single one can be named."""


@dataclass(frozen=True)
class Place:
    """Consecutive records of a shard from one where reading can begin."""

    part: int
    first: int
    """First record, counted in its part."""
    count: int


@dataclass(frozen=True)
class Stored:
    """One record as it is stored, or what is wrong in its place."""

    where: str
    """Its place in the shard, such as "record 5"."""
    data: bytes
    """The serialised record; empty if there is a fault."""
    fault: str | None = None
    count: int = 1
    """Number of records that the fault is in."""


class Scan(Protocol):
    """One pass over a shard, whatever a manifest says of it."""

    def __iter__(self) -> Iterator[Stored]:
        """Yield all records.

        Raises:
            BrokenRecordError: What follows cannot be found.
            OSError: The file cannot be read.
        """

    @property
    def where(self) -> str:
        """Place of the next record."""

    def shard(self) -> Shard:
        """Return the description of the file, after all records."""

    def index_fault(self, shard: Shard) -> str | None:
        """Return how the index of a manifest differs from that of the file, or None."""


class RecordReader(Protocol):
    """Reads records for training. Safe to use from any thread."""

    def records(
        self, path: str, shard: Shard, part: int, first: int, count: int
    ) -> Iterator[bytes]:
        """Yield serialised records, checked; fewer if the file ends early.

        Args:
            path: File to read, of the shard or a copy of it.
            shard: Description of the shard.
            part: Part that the records are in.
            first: First record, counted in its part.
            count: Number of records.

        Raises:
            BrokenRecordError: A record does not match its checksum; `BrokenPartError` if it is not
                known which.
            OSError: The file cannot be read.
        """


class RecordFormat(Protocol):
    """A format of files that hold records, each a serialised `tf.train.Example`."""

    def parts(self, shard: Shard) -> Sequence[int]:
        """Return the numbers of records in the parts of a shard; the order permutes all parts."""

    def places(self, shard: Shard) -> list[Place]:
        """Return the places where reading can begin, with the records up to the next one."""

    def begin(self, first: int) -> int:
        """Return the record from which a part is read in order to read one of its records."""

    def where(self, part: int, record: int | None) -> str:
        """Return the name of a record of a part, or of the whole part."""

    def reader(self, streams: int) -> RecordReader:
        """Return a reader.

        Args:
            streams: Streams that read in turn, for each of which it may keep what was read and is
                needed next.
        """

    def scan(self, path: str, file: str, known: Shard | None = None) -> Scan:
        """Return a scan of a file.

        Args:
            path: File to read.
            file: Name of the file relative to the manifest.
            known: Description in a manifest, for formats whose files need have no checksums.
        """
