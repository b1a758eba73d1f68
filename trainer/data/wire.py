"""`tf.train.Example` as bytes, without a copy of the image in it. Standard library only.

protobuf copies an image twice, which takes as long as to read it. This is its wire format
(protobuf.dev/programming-guides/encoding): fields as a tag, a length and that many bytes.
"""

from functools import lru_cache


def example_header(size: int) -> bytes:
    """What stands before the features of an Example.

    Args:
        size: bytes of all features together.
    """
    return b"\x0a" + _varint(size)


def bytes_feature(key: str, value: bytes) -> bytes:
    """One entry of an Example's map that holds a text, or other bytes."""
    return bytes_header(key, len(value)) + value


@lru_cache(4096)
def known_text(key: str, text: str) -> bytes:
    """`bytes_feature` of a text that many records have; a name that is not UTF-8 stays as it is."""
    return bytes_feature(key, text.encode(errors="surrogateescape"))


def bytes_header(key: str, size: int) -> bytes:
    """What stands before the bytes of a `bytes_feature`, of which there are `size`."""
    value = b"\x0a" + _varint(size)
    values = b"\x0a" + _varint(len(value) + size)
    return _entry(key, values + value, len(values) + len(value) + size)


@lru_cache(4096)
def int_feature(key: str, value: int) -> bytes:
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
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
