"""Parquet files as Hugging Face's `datasets` writes them, of records for tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.trainer.support.data_sets.image_files import noise, saved
from tests.trainer.support.data_sets.records import noise_record
from trainer.data.example import Record
from trainer.data.manifest import Manifest, read_manifest
from trainer.extras.parquet.describe import prepare_parquet
from trainer.extras.parquet.format import parquet_format
from trainer.extras.parquet.options import PrepareParquetOptions

CLASSES = ("ant", "bee", "cat")
IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def features(classes: Sequence[str] | None) -> dict[bytes, bytes]:
    """The metadata of the schema, as written by `datasets` 2.x and later."""
    label = (
        {"dtype": "int64", "_type": "Value"}
        if classes is None
        else {"names": list(classes), "_type": "ClassLabel"}
    )
    described = {"info": {"features": {"image": {"_type": "Image"}, "label": label}}}
    return {b"huggingface": json.dumps(described).encode()}


def table(records: Sequence[Record], classes: Sequence[str] | None = CLASSES) -> pa.Table:
    """Records as a table with the schema of `datasets`."""
    schema = pa.schema({"image": IMAGE, "label": pa.int64()}, metadata=features(classes))
    images = [{"bytes": record.encoded, "path": record.filename} for record in records]
    return pa.table([images, [record.label for record in records]], schema=schema)


def write_file(path: Path, content: pa.Table, rows: int = 100, **options: Any) -> Path:
    """Write a file with row groups of 100, compressed by snappy, as `datasets` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, path, row_group_size=rows, **{"compression": "snappy", **options})
    return path


def write_split(
    folder: Path,
    split: str,
    records: Sequence[Record],
    files: int = 2,
    rows: int = 100,
    classes: Sequence[str] | None = CLASSES,
) -> list[Path]:
    """Write data/train-00000-of-00002.parquet and so on, and return the files."""
    bounds = [len(records) * number // files for number in range(files + 1)]
    return [
        write_file(
            folder / "data" / f"{split}-{number:05d}-of-{files:05d}.parquet",
            table(records[bounds[number] : bounds[number + 1]], classes),
            rows,
        )
        for number in range(files)
    ]


def pictures(count: int, first: int = 0) -> list[Record]:
    """Pictures of noise of three classes; all bytes of each matter."""
    return [noise_record(first + number, number % 3, "JPEG") for number in range(count)]


def stored(seed: int, size: tuple[int, int] = (20, 20), kind: str = "PNG", **options: Any) -> Any:
    """An image of noise as a row has it."""
    return {"bytes": saved(noise(seed, size), kind, **options), "path": f"{seed}.{kind.lower()}"}


def records(folder: Path, split: str = "train") -> list[Record]:
    """The records of a split, in the order of files."""
    manifest = read_manifest(folder)
    files = parquet_format(manifest)
    reader = files.reader(1)
    return [
        files.record(values)
        for shard in manifest.splits[split].shards
        for block, count in enumerate(shard.blocks)
        for values in reader.records(str(folder / shard.file), shard, block, 0, count)
    ]


def describe(folder: Path, **options: Any) -> Manifest:
    """Write the manifest, in this process."""
    wanted = PrepareParquetOptions(**{"input": str(folder), "processes": 1, **options})
    return prepare_parquet(wanted, "the command")


def flip(path: Path, place: int) -> None:
    """Change one byte of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


def place_of(path: Path, record: Record) -> int:
    """Return the place in a file of a pixel of a record; what comes first all JPEGs share."""
    return path.read_bytes().index(record.encoded[-30:-6])
