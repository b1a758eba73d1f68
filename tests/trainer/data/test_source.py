"""The bound on the memory of the input."""

from dataclasses import replace

from trainer.config import DataConfig
from trainer.data.manifest import Shard, Split
from trainer.data.source import OVERHEAD_BYTES, decoded_at_once, input_memory


def split(examples, size=100_000):
    return Split((Shard("a", examples, examples * size, "", ()),), (examples,), ("JPEG",))


CONFIG = DataConfig(source="tfrecords", dir="x", streams=64, shuffle_window=512, decode_threads=1)


def test_the_bound_is_windows_of_images_and_batches_of_pixels():
    found = input_memory(split(1_281_167), CONFIG, ranks=16, batch_size=256, image_size=224)
    held, pixels = 2 * 4 * 512 + (4 + 2) * 32, ((2 + 2) * 256 + 2 * 32) * 224 * 224 * 3
    assert found == held * 100_000 + pixels + OVERHEAD_BYTES


def test_the_bound_does_not_depend_on_the_length_of_a_long_data_set():
    one, ten = (input_memory(split(n), CONFIG, 8, 32, 224) for n in (1_000_000, 10_000_000))
    assert one == ten


def test_a_data_set_shorter_than_its_windows_is_held_twice_and_in_six_chunks_at_most():
    held, pixels = 2 * 640 + 6 * 32, (4 * 1 + 2 * 32) * 8 * 8 * 3
    assert input_memory(split(640), CONFIG, 1, 1, 8) == held * 100_000 + pixels + OVERHEAD_BYTES


def test_many_threads_share_chunks_and_few_have_two_in_turn():
    assert [decoded_at_once(threads) for threads in (1, 2, 16, 17, 40)] == [2, 2, 2, 3, 5]


def test_the_bound_counts_the_chunks_of_all_cores_if_no_threads_are_chosen(monkeypatch):
    monkeypatch.setattr("trainer.data.source.cores", lambda: 40)
    bounds = [
        input_memory(split(1_281_167), replace(CONFIG, decode_threads=threads), 16, 256, 224)
        for threads in (0, 40)
    ]
    assert bounds[0] == bounds[1]
