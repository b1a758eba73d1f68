"""Parquet files of images and labels, read where they are."""

from typing import Final

from common.program import Command
from trainer.leaf import Leaf

FORMAT: Final = "parquet"
"""Name of the format in manifests."""

LEAF: Final = Leaf(
    record_formats={FORMAT: "trainer.extras.parquet.format:parquet_format"},
    commands=(
        Command(
            "prepare parquet",
            "data",
            "write only the manifest for Parquet files",
            "trainer.extras.parquet.describe:prepare_parquet",
            "trainer.extras.parquet.options:PrepareParquetOptions",
        ),
    ),
)
