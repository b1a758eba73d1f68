# /// script
# requires-python = "==3.11.*"
# dependencies = [
#     "datasets==5.2.0", "webdataset==1.0.2", "pyarrow==26.0.1", "pillow==13.0.0", "numpy==2.0.2",
# ]
# ///
"""Write the data sets in this folder with the libraries with which such sets are published:

    .tools/uv/bin/uv run --no-project tests/trainer/published/write.py

An environment of its own is made for it, because the trainer needs neither library.
"""

import io
import sys
import tempfile
from pathlib import Path

import datasets  # type: ignore[import-not-found]
import webdataset  # type: ignore[import-not-found]
from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from pictures import CLASSES, COUNTS, label, picture  # type: ignore[import-not-found]  # noqa: E402

FILES = {"train": 12, "validation": 3, "test": 2}
ROWS = {"train": 4, "validation": None, "test": None}
"""Rows of a row group; None leaves it to `datasets`, for which this is one row group."""


def encoded(split: str, number: int) -> bytes:
    """Return an image as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(picture(split, number)).save(buffer, "PNG")
    return buffer.getvalue()


def write_parquet(split: str, folder: Path, scratch: Path) -> None:
    """Write the files of a split by the calls that `push_to_hub` makes."""
    files = []
    for number in range(COUNTS[split]):
        files.append(scratch / f"{split}-{number}.png")
        files[-1].write_bytes(encoded(split, number))
    numbers = range(COUNTS[split])
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(CLASSES))}
    )
    whole = datasets.Dataset.from_dict(
        {"image": [str(file) for file in files], "label": [label(split, n) for n in numbers]},
        features=features,
    )
    for index in range(FILES[split]):
        shard = whole.shard(num_shards=FILES[split], index=index, contiguous=True)
        layout = shard.format
        shard = shard.with_format("arrow").map(
            datasets.table.embed_table_storage, batched=True, keep_in_memory=True
        )
        name = f"{split}-{index:05d}-of-{FILES[split]:05d}.parquet"
        shard.with_format(**layout).to_parquet(folder / name, batch_size=ROWS[split])


def write_tars(split: str, folder: Path) -> None:
    """Write the archives of a split; the held-out ones have their labels as JSON."""
    with webdataset.ShardWriter(
        str(folder / f"pictures-{split}-%06d.tar"), maxcount=20, verbose=0, mtime=0, user="user"
    ) as shards:
        for number in range(COUNTS[split] // 3):
            target = label(split, number)
            said = {"json": {"label": target}} if split == "validation" else {"cls": target}
            shards.write({"__key__": f"{number:06d}", "png": encoded(split, number), **said})


if __name__ == "__main__":
    (HERE / "parquet" / "data").mkdir(parents=True, exist_ok=True)
    (HERE / "tars").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in COUNTS:
            write_parquet(name, HERE / "parquet" / "data", Path(scratch))
    for name in ("train", "validation"):
        write_tars(name, HERE / "tars")
