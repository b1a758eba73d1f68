"""`tf.train.Example` without TensorFlow, which takes 7 s and 400 MB in each process that loads it.

The messages are declared here as tensorflow/core/example/{example,feature}.proto declare them; the
field numbers are all that readers see.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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
