"""One image as a record: ImageNet's usual `tf.train.Example`.

Keys: image/encoded, image/format (JPEG or PNG), image/height, image/width, image/channels,
image/colorspace, image/filename, image/class/label, image/class/text, image/class/synset if there
is one, and further keys of a task. Nothing here needs TensorFlow, which takes 7 s and 400 MB in
each process that loads it, so a process that writes shards stays small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from trainer.leaves import TASKS

_OF_TASKS = tuple(key for task in TASKS.values() for key in task.features)
_EMPTY: Final = 2
"""Bytes of a feature without values."""
LABELS: Final = "several labels"
BOXES: Final = "boxes"
MASK: Final = "a mask"
OTHER_COMMANDS: Final = {
    LABELS: "write them as a table for `prepare multilabel`",
    BOXES: "write them as COCO's JSON or YOLO's texts for `prepare detection`",
    MASK: "write images and masks into folders for `prepare segmentation`",
}
"""What files of one class for each image may have of other tasks, and what reads that."""
_READ_KEYS = (
    *_OF_TASKS,
    *("image/encoded", "image/format", "image/height", "image/width", "image/filename"),
    *("image/class/label", "image/class/text", "image/class/synset"),
)


@dataclass(frozen=True)
class Record:
    """One image as it is stored."""

    encoded: bytes
    format: str
    """Format of the encoded image: JPEG or PNG."""
    height: int
    width: int
    label: int
    """Label as stored: counted from 0, or from 1 in shards of some other writers."""
    text: str
    """Name of the class."""
    filename: str
    synset: str = ""
    """WordNet's identifier of the class, in ImageNet."""
    more: Mapping[str, bytes] = field(default_factory=dict)
    """Features of a task by key, which sort behind image/height and before image/width."""
    unread: str = field(default="", compare=False)
    """Content besides a class that only the record's own task reads: one of `OTHER_COMMANDS`."""


class BrokenRecordError(ValueError):
    """A record that cannot be read; the message says why."""


def example_parts(record: Record) -> tuple[bytes, bytes, bytes]:
    """Serialise a record as three parts: the bytes before its image, the image, the bytes after it.

    The features are sorted by name, as in protobuf's deterministic serialisation.
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
        # A name that is not UTF-8 is kept as the bytes of the file system.
        _bytes_feature("image/filename", record.filename.encode(errors="surrogateescape"))
        + _known_text("image/format", record.format)
        + _int_feature("image/height", record.height)
        + b"".join(_bytes_feature(key, record.more[key]) for key in sorted(record.more))
        + _int_feature("image/width", record.width)
    )
    head = b"\x0a" + _varint(len(before) + len(encoded) + len(behind))
    return head + before, encoded, behind


def from_example(serialized: bytes) -> Record:
    """Parse a record of ours or of another writer.

    Features that another writer left out are empty or 0; only the image and its label are required.

    Raises:
        BrokenRecordError: The bytes are not an Example, or it has no image or no label.
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
    unread = _of_another_task(feature)
    if not isinstance(label, int):
        cure = f", but {unread}; {OTHER_COMMANDS[unread]}" if unread else ""
        raise BrokenRecordError(f"has no label (image/class/label){cure}")
    if unread == LABELS:
        raise BrokenRecordError(f"has {unread} (image/class/label); {OTHER_COMMANDS[unread]}")

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
        more={key: values[key] for key in _OF_TASKS if values.get(key)},
        unread=unread,
    )


def _of_another_task(feature: Mapping[str, Any]) -> str:
    """Return one of `OTHER_COMMANDS`; empty if a record is of one class alone."""
    if "image/class/label" in feature and len(feature["image/class/label"].int64_list.value) > 1:
        return LABELS
    # ImageNet's converters write empty lists of boxes.
    keys = [key for key, value in feature.items() if value.ByteSize() > _EMPTY]
    if any(key.startswith("image/object/") for key in keys):
        return BOXES
    return MASK if any(key.startswith("image/segmentation/") for key in keys) else ""


# The functions below serialise an Example without copying its image: protobuf would copy it twice,
# which takes as long as reading it. In the wire format (protobuf.dev/programming-guides/encoding) a
# field is a tag, a length and that many bytes.


def _bytes_feature(key: str, value: bytes) -> bytes:
    """Return an entry of an Example's feature map with a text or other bytes."""
    return _bytes_header(key, len(value)) + value


@lru_cache(4096)
def _known_text(key: str, text: str) -> bytes:
    """Return a `_bytes_feature` of a text that many records share, cached."""
    return _bytes_feature(key, text.encode(errors="surrogateescape"))


def _bytes_header(key: str, size: int) -> bytes:
    """Return the bytes of a `_bytes_feature` before its value of `size` bytes."""
    value = b"\x0a" + _varint(size)
    values = b"\x0a" + _varint(len(value) + size)
    return _entry(key, values + value, len(values) + len(value) + size)


@lru_cache(4096)
def _int_feature(key: str, value: int) -> bytes:
    """Return an entry of an Example's feature map with a 64-bit integer."""
    packed = _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    values = b"\x0a" + _varint(len(packed)) + packed
    feature = b"\x1a" + _varint(len(values)) + values
    return _entry(key, feature, len(feature))


def _entry(key: str, feature: bytes, size: int) -> bytes:
    """Return an entry of a map, of whose feature of `size` bytes only the beginning is given."""
    name = key.encode()
    head = b"\x0a" + _varint(len(name)) + name + b"\x12" + _varint(size)
    return b"\x0a" + _varint(len(head) + size) + head + feature


def _varint(value: int) -> bytes:
    """Encode an integer as 7 bits per byte, lowest first; all bytes but the last have bit 7 set."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


# The messages to parse, as declared in tensorflow/core/example/{example,feature}.proto; only the
# field numbers matter on the wire.

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
    for number, (kind, name) in enumerate(
        {"bytes_list": "BytesList", "float_list": "FloatList", "int64_list": "Int64List"}.items(), 1
    ):
        _add(feature, kind, number, name).oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_ONE, type=_FIELD.TYPE_STRING)
    _add(entry, "value", 2, "Feature")
    _add(features, "feature", 1, "Features.FeatureEntry").label = _MANY
    _add(file.message_type.add(name="Example"), "features", 1, "Features")
    # A separate pool, because TensorFlow registers its own declarations in the default one.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("trainer.Example"))


def _add(message: Any, name: str, number: int, kind: str) -> Any:
    return message.field.add(
        name=name, number=number, label=_ONE, type=_FIELD.TYPE_MESSAGE, type_name=f".trainer.{kind}"
    )


Example: Any = _declare()
"""Message class of tf.train.Example."""
