"""The format of a data set's files."""

from trainer.data.formats.record_format import RecordFormat
from trainer.data.formats.tfrecord import TFRECORDS
from trainer.data.manifest import Manifest


def record_format(manifest: Manifest) -> RecordFormat:
    """Return the format in which the files of a data set are read."""
    if manifest.columns is None:
        return TFRECORDS
    # It takes pyarrow, 50 MB in each process.
    from trainer.data.formats.parquet import ParquetFormat

    return ParquetFormat(manifest.columns)
