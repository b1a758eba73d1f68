"""Records as protobuf would write them."""

from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.support.data_sets.records import to_example
from trainer.data.example import Example, Record, example_parts, from_example
from trainer.data.formats.tfrecord import ShardWriter, read_shard

# Texts as the file system gives them: bytes outside of UTF-8 are lone surrogates.
TEXTS = st.binary(max_size=300).map(lambda data: data.decode(errors="surrogateescape"))
SIZES = st.integers(0, 2**40)
RECORDS = st.builds(
    Record, st.binary(max_size=70_000), st.sampled_from(["JPEG", "PNG"]), SIZES, SIZES,
    st.integers(0, 2**31), TEXTS, TEXTS, TEXTS,
)  # fmt: skip


@given(RECORDS)
def test_a_record_has_the_bytes_that_protobuf_gives_it(record):
    serialized = to_example(record)
    assert Example.FromString(serialized).SerializeToString(deterministic=True) == serialized
    if record.encoded:
        assert from_example(serialized) == record


def test_a_long_image_is_not_copied():
    image = bytes(200_000)
    assert example_parts(Record(image, "JPEG", 1, 1, 0, "", ""))[1] is image


def test_a_record_may_be_written_in_parts(tmp_path):
    shards = []
    for name, parts in (("whole", (b"abcdef",)), ("parts", (b"ab", b"", b"cdef"))):
        with ShardWriter(tmp_path / name) as writer:
            writer.write(*parts)
        shards.append((writer.shard().bytes, writer.shard().xxh128))
        assert list(read_shard(tmp_path / name)) == [b"abcdef"]
    assert shards[0] == shards[1]
