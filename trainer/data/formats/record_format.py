"""The interface between files of records and all that read them, and the formats by name.

No TensorFlow, except where records are parsed in a graph.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from common.program import load
from trainer.data.example import BrokenRecordError, Record
from trainer.data.manifest import Manifest, Shard
from trainer.errors import DataError
from trainer.leaves import LEAVES

T = TypeVar("T")

Values: TypeAlias = tuple[Any, ...]
"""A record as it is read, a value for each of its format's `fields`; in a graph tensors of them."""


class BrokenBlockError(BrokenRecordError):
    """Records that are damaged together, so that no single one can be named."""


@dataclass(frozen=True)
class StoredTarget:
    """Values of a record besides its image, for training to predict."""

    key: str
    """Name of the feature in a `tf.train.Example`."""
    type: str
    """Type of TensorFlow: int64 or string."""
    default: str | None = None
    """Value for a record without it; None if every record must have it."""


LABEL: Final = StoredTarget("image/class/label", "int64")
"""The class of an image as a whole, which records of every format have."""


@dataclass(frozen=True)
class Entry:
    """A record at which reading can begin, with those up to the next such record."""

    block: int
    first: int
    """The record, counted in its block."""
    count: int


@dataclass(frozen=True)
class Stored:
    """One record as it is stored, or its fault."""

    where: str
    """Its name in the shard, such as "record 5"."""
    values: Values = ()
    """The record, empty if there is a fault."""
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
        """Name of the next record."""

    def shard(self) -> Shard:
        """Return the description of the file, after all records."""


class Kept(Generic[T]):
    """The last positions of a reader in its streams, to begin there again. Safe to use from any
    thread.
    """

    def __init__(self, most: int) -> None:
        self._most, self._values, self._lock = most, OrderedDict[Hashable, T](), threading.Lock()

    def take(self, key: Hashable) -> T | None:
        """Return the kept position, and forget it."""
        with self._lock:
            return self._values.pop(key, None)

    def keep(self, key: Hashable, value: T) -> None:
        """Keep a position; the oldest ones are dropped if there are too many."""
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)


class RecordReader(Protocol):
    """Reads records for training. Safe to use from any thread."""

    def records(
        self, path: str, shard: Shard, block: int, first: int, count: int
    ) -> Iterator[Values]:
        """Yield records, checked; fewer if the file ends early.

        Args:
            path: File to read, of the shard or a copy of it.
            shard: Description of the shard.
            block: Block that the records are in.
            first: First record, counted in its block.
            count: Number of records.

        Raises:
            BrokenRecordError: A record does not match its checksum; `BrokenBlockError` if it is not
                known which.
            OSError: The file cannot be read.
        """


class RecordFormat(Protocol):
    """A format of files that hold records, each of an image and its target."""

    @property
    def fields(self) -> Sequence[str]:
        """Types of TensorFlow of the values of a record: string or int64."""

    def parse(self, values: Values, target: StoredTarget) -> tuple[Any, Any]:
        """Parse records together in a graph, which costs less than one by one.

        Args:
            values: Tensors of the records' values, of any shape.
            target: What to return besides the images.

        Returns:
            Encoded images, string, and targets, tensors of that shape.
        """

    def record(self, values: Values) -> Record:
        """Parse one record without TensorFlow.

        Raises:
            BrokenRecordError: It has no image or no label.
        """

    def blocks(self, shard: Shard) -> Sequence[int]:
        """Return the numbers of records in the blocks of a shard; the order permutes all blocks."""

    def entries(self, shard: Shard) -> list[Entry]:
        """Return where reading can begin."""

    def where(self, block: int, record: int | None) -> str:
        """Return the name of a record of a block, or of the whole block."""

    def reader(self, streams: int) -> RecordReader:
        """Return a reader.

        Args:
            streams: Streams that read in turn, for each of which it may keep data that it has read
            and needs next.
        """

    def scan(self, path: str, file: str, known: Shard | None = None) -> Scan:
        """Return a scan of a file.

        Args:
            path: File to read.
            file: Name of the file relative to the manifest.
            known: Description in a manifest, for formats whose files need have no checksums.
        """


FORMATS: Final[Mapping[str, str]] = {
    "": "trainer.data.formats.tfrecord:tfrecords",
    **{name: path for leaf in LEAVES for name, path in leaf.record_formats.items()},
}
"""MODULE:FUNCTION that makes the format of a manifest, by the format's name in it."""


def record_format(manifest: Manifest) -> RecordFormat:
    """Return the format in which the files of a data set are read.

    Raises:
        DataError: The format is not known.
    """
    if manifest.format not in FORMATS:
        raise DataError(
            f"files of the format {manifest.format!r} are not read; prepare the data again, as one"
            " of: " + ", ".join(name or "TFRecords" for name in FORMATS)
        )
    made: RecordFormat = load(FORMATS[manifest.format])(manifest)
    return made
