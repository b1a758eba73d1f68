"""One image as a record: ImageNet's usual `tf.train.Example`.

Keys: image/encoded, image/format (JPEG or PNG), image/height, image/width, image/channels,
image/colorspace, image/filename, image/class/label, image/class/text, and image/class/synset where
there is one. TensorFlow takes 7 s and 400 MB in each process that loads it; nothing here needs it,
so a process that writes shards stays small.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

_READ_KEYS = (
    *("image/encoded", "image/format", "image/height", "image/width", "image/filename"),
    *("image/class/label", "image/class/text", "image/class/synset"),
)


@dataclass(frozen=True)
class Record:
    """One image as it is stored."""

    encoded: bytes
    format: str
    """JPEG or PNG."""
    height: int
    width: int
    label: int
    """Index of the class, as stored: from 0, or from 1 in shards of others."""
    text: str
    """Name of the class."""
    filename: str
    synset: str = ""
    """WordNet's identifier of the class, in ImageNet."""


class BrokenRecordError(ValueError):
    """A record that cannot be read; the message says how."""


def to_example(record: Record) -> bytes:
    """Serialise a record."""
    return b"".join(example_parts(record))


def example_parts(record: Record) -> tuple[bytes, bytes, bytes]:
    """Serialise a record: what stands before its image, the image, and what stands behind it.

    The features are in the order of their names, as protobuf has them if it is asked for the same
    bytes each time.
    """
    encoded = record.encoded
    before = (
        _int_feature("image/channels", 3)
        + _int_feature("image/class/label", record.label)
        + (_known_text("image/class/synset", record.synset) if record.synset else b"")
        + _known_text("image/class/text", record.text)
        + _known_text("image/colorspace", "RGB")
        + _bytes_header("image/encoded", len(encoded))
    )
    behind = (
        # A name that is not UTF-8 is kept as the bytes that the file system gave.
        _bytes_feature("image/filename", record.filename.encode(errors="surrogateescape"))
        + _known_text("image/format", record.format)
        + _int_feature("image/height", record.height)
        + _int_feature("image/width", record.width)
    )
    head = _example_header(len(before) + len(encoded) + len(behind))
    return head + before, encoded, behind


def from_example(serialized: bytes) -> Record:
    """Read a record of ours or of another writer.

    What another writer left out is empty or 0, except the image and its label.

    Raises:
        BrokenRecordError: not an Example, or one without an image or a label.
    """
    try:
        feature = Example.FromString(serialized).features.feature
    except DecodeError as error:
        raise BrokenRecordError(f"is not a tf.train.Example ({error})") from error
    values: dict[str, Any] = {}
    for key in _READ_KEYS:
        kind = feature[key].WhichOneof("kind") if key in feature else None
        stored = getattr(feature[key], kind).value if kind else ()
        if stored:
            values[key] = stored[0]
    encoded, label = values.get("image/encoded"), values.get("image/class/label")
    if not isinstance(encoded, bytes) or not encoded:
        raise BrokenRecordError("has no image (image/encoded)")
    if not isinstance(label, int):
        raise BrokenRecordError("has no label (image/class/label)")

    def text(key: str) -> str:
        value = values.get(key, b"")
        return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)

    return Record(
        encoded=encoded,
        format=text("image/format").upper(),
        height=int(values.get("image/height", 0)),
        width=int(values.get("image/width", 0)),
        label=label,
        text=text("image/class/text"),
        filename=text("image/filename"),
        synset=text("image/class/synset"),
    )


# An Example as bytes, without a copy of the image in it: protobuf would copy it twice, which takes
# as long as to read it. In the wire format (protobuf.dev/programming-guides/encoding) a field is a
# tag, a length and that many bytes.


def _example_header(size: int) -> bytes:
    """What stands before the features of an Example.

    Args:
        size: bytes of all features together.
    """
    return b"\x0a" + _varint(size)


def _bytes_feature(key: str, value: bytes) -> bytes:
    """One entry of an Example's map that holds a text, or other bytes."""
    return _bytes_header(key, len(value)) + value


@lru_cache(4096)
def _known_text(key: str, text: str) -> bytes:
    """As `_bytes_feature`, of a text that many records have; if not UTF-8 it stays as it is."""
    return _bytes_feature(key, text.encode(errors="surrogateescape"))


def _bytes_header(key: str, size: int) -> bytes:
    """What stands before the bytes of a `_bytes_feature`, of which there are `size`."""
    value = b"\x0a" + _varint(size)
    values = b"\x0a" + _varint(len(value) + size)
    return _entry(key, values + value, len(values) + len(value) + size)


@lru_cache(4096)
def _int_feature(key: str, value: int) -> bytes:
    """One entry of an Example's map that holds an integer of 64 bits."""
    packed = _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    values = b"\x0a" + _varint(len(packed)) + packed
    feature = b"\x1a" + _varint(len(values)) + values
    return _entry(key, feature, len(feature))


def _entry(key: str, feature: bytes, size: int) -> bytes:
    """An entry of a map, up to the end of what is given of its feature of `size` bytes."""
    name = key.encode()
    head = b"\x0a" + _varint(len(name)) + name + b"\x12" + _varint(size)
    return b"\x0a" + _varint(len(head) + size) + head + feature


def _varint(value: int) -> bytes:
    """7 bits a byte, the lowest first; all but the last have their highest bit set."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


# The messages that are read, declared as tensorflow/core/example/{example,feature}.proto declare
# them; the field numbers are all that readers see.

_FIELD = descriptor_pb2.FieldDescriptorProto
_ONE, _MANY = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED


def _declare() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="trainer/example.proto", package="trainer", syntax="proto3"
    )
    lists = {"BytesList": _FIELD.TYPE_BYTES, "FloatList": _FIELD.TYPE_FLOAT,
             "Int64List": _FIELD.TYPE_INT64}  # fmt: skip
    for name, kind in lists.items():
        message = file.message_type.add(name=name)
        message.field.add(name="value", number=1, label=_MANY, type=kind)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (field, name) in enumerate(
        {"bytes_list": "BytesList", "float_list": "FloatList", "int64_list": "Int64List"}.items(), 1
    ):
        _add(feature, field, number, name).oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_ONE, type=_FIELD.TYPE_STRING)
    _add(entry, "value", 2, "Feature")
    _add(features, "feature", 1, "Features.FeatureEntry").label = _MANY
    _add(file.message_type.add(name="Example"), "features", 1, "Features")
    # A pool of its own, as TensorFlow puts its declarations into the common one.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("trainer.Example"))


def _add(message: Any, name: str, number: int, kind: str) -> Any:
    return message.field.add(
        name=name, number=number, label=_ONE, type=_FIELD.TYPE_MESSAGE, type_name=f".trainer.{kind}"
    )


Example: Any = _declare()
"""The message class, with protobuf's own methods."""
