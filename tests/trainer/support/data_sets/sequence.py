"""The images that all ranks together read."""

from trainer.data.pipeline import make_order
from trainer.data.reader import training_records
from trainer.data.source import Source


def images_read(source: Source, ranks: int, position: int, count: int) -> list[bytes]:
    """The encoded images at positions of the endless sequence, read by all ranks together."""
    order = make_order(source, ranks)
    chunks = [training_records(source, order, rank, position) for rank in range(ranks)]
    streams = [records.unbatch().as_numpy_iterator() for records in chunks]
    return [
        source.format.record(next(streams[number % ranks])).encoded
        for number in range(position, position + count)
    ]
