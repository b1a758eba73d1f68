"""Images and masks from two folders become shards that train."""

import io
import re
import shlex
import struct
import zlib
from unicodedata import normalize

import numpy as np
import pytest
from PIL import Image

from common.errors import ConfigError
from tests.trainer.support.data_sets.image_files import noise, save
from tests.trainer.support.data_sets.image_folders import by_name, reasons
from trainer.data.manifest import check_trainable
from trainer.data.prepare.options import VerifyOptions
from trainer.data.verify import verify
from trainer.errors import DataError
from trainer.extras.segmentation.leaf import MASK, SEGMENTATION
from trainer.extras.segmentation.mask_files import stored_mask_fault
from trainer.extras.segmentation.options import PrepareSegmentationOptions
from trainer.extras.segmentation.prepare import prepare_segmentation
from trainer.fitting.suggestion import print_suggestion
from trainer.presets import parse_train
from trainer.tasks.classification.leaf import CLASSIFICATION

CLASSES = ("background", "cat", "dog")


def picture(height=20, width=30, seed=0):
    return np.asarray(noise(seed, (width, height)))


def striped(value, height=20, width=30):
    mask = np.zeros([height, width], np.uint8)
    mask[2:10] = value
    mask[-1] = 255
    return mask


@pytest.fixture
def folders(tmp_path):
    """Twelve images in two folders, with masks."""
    for number in range(12):
        name = f"{'ab'[number % 2]}/{number}"
        save(tmp_path / "images" / f"{name}.jpg", picture(seed=number), quality=95)
        save(tmp_path / "masks" / f"{name}.png", striped(1 + number % 2))
    return tmp_path


def prepare(folder, **options):
    given = {"classes": CLASSES, "processes": 1, "held_out": 0.25, **options}
    return prepare_segmentation(
        PrepareSegmentationOptions(
            images=str(folder / "images"), masks=str(folder / "masks"),
            output=str(folder / "out"), **given,
        ),
        "prepare segmentation",
    )  # fmt: skip


def records(folder):
    return by_name(folder / "out")


def prepared(folder, **options):
    prepare(folder, **options)
    return records(folder)


def pixels(png):
    with Image.open(io.BytesIO(png)) as image:
        assert image.mode == "L"
        return np.asarray(image)


def test_every_record_has_its_image_its_mask_and_its_main_class(folders):
    manifest = prepare(folders)
    assert manifest.classes == CLASSES
    assert {name: split.examples for name, split in manifest.splits.items()} == {
        "train": 9,
        "validation": 3,
    }
    found = records(folders)
    assert len(found) == 12
    for name, record in found.items():
        number = int(name.split("/")[1].split(".")[0])
        assert record.encoded == (folders / "images" / name).read_bytes()
        assert np.array_equal(pixels(record.more[MASK]), striped(1 + number % 2))
        assert (record.label, record.text) == (1 + number % 2, CLASSES[1 + number % 2])
    # Verification reads the records as those of any data set.
    verify(folders / "out", VerifyOptions(deep=True, processes=1))


def test_a_palette_counts_by_its_indices_and_one_bit_by_its_values(folders):
    palette = Image.fromarray(striped(2))
    coloured = palette.convert("P")
    coloured = Image.frombytes("P", palette.size, palette.tobytes())
    coloured.putpalette([0, 0, 0, 10, 200, 30, 250, 1, 99] + [7] * 759)
    coloured.save(folders / "masks/a/0.png")
    bits = striped(1) == 1
    Image.fromarray(bits).save(folders / "masks/b/1.png")
    found = prepared(folders)
    assert np.array_equal(pixels(found["a/0.jpg"].more[MASK]), striped(2))
    assert np.array_equal(pixels(found["b/1.jpg"].more[MASK]), bits.astype(np.uint8))


def grey(path, depth, pixels):
    """A grey PNG of some bits per pixel, which Pillow does not write."""
    bits = np.unpackbits(pixels[..., None], axis=-1)[..., -depth:].reshape(len(pixels), -1)
    rows = b"".join(b"\0" + row.tobytes() for row in np.packbits(bits, axis=-1))
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", *pixels.shape[::-1], depth, 0, 0, 0, 0),
        b"IDAT": zlib.compress(rows),
        b"IEND": b"",
    }
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    ))  # fmt: skip


@pytest.mark.parametrize("depth", [2, 4])
def test_grey_masks_of_few_bits_count_by_their_values(folders, depth):
    """Pillow makes 85 of the value 1 of 2 bits, and 17 of that of 4 bits."""
    values, highest = np.zeros([20, 30], np.uint8), 2**depth - 1
    values[2:10], values[12, 1:4], values[-1] = 1, 2, highest
    expected = values.copy()
    # As in a mask of 8 bits, the highest value are pixels that do not count.
    expected[values == highest] = 255
    for number in range(12):
        grey(folders / "masks" / "ab"[number % 2] / f"{number}.png", depth, values)
    images = prepared(folders)
    assert np.array_equal(pixels(images["a/0.jpg"].more[MASK]), expected)
    # Unless it is a class.
    names = tuple(f"class {number}" for number in range(2**depth))
    (folders / "out").rename(folders / "first")
    images = prepared(folders, classes=names)
    assert np.array_equal(pixels(images["a/0.jpg"].more[MASK]), values)


@pytest.mark.parametrize(
    ("others", "says"),
    [((), "all masks have only the values 0 and 255"), ((128,), "a mask with the value 128")],
)
def test_masks_of_0_and_255_are_told_from_those_of_other_values(folders, others, says):
    for number in range(12):
        mask = striped(255)
        mask[3, : len(others)] = others
        save(folders / "masks" / "ab"[number % 2] / f"{number}.png", mask)
    with pytest.raises(DataError, match=says) as refused:
        prepare(folders)
    assert ("all masks have only" in str(refused.value)) == (not others)


def test_a_shrunk_image_has_its_mask_shrunk_alike(folders):
    found = prepared(folders, reencode="10:90")
    for record in found.values():
        assert (record.height, record.width) == (10, 15)
        assert pixels(record.more[MASK]).shape == (10, 15)
        assert set(np.unique(pixels(record.more[MASK]))) <= {0, 1, 2, 255}


def test_folders_of_splits_are_kept(folders):
    for kind, suffix in (("images", "jpg"), ("masks", "png")):
        for number in range(12):
            old = folders / kind / "ab"[number % 2] / f"{number}.{suffix}"
            new = folders / kind / ("train" if number < 8 else "val") / f"{number}.{suffix}"
            new.parent.mkdir(exist_ok=True)
            old.rename(new)
    manifest = prepare(folders)
    assert {name: split.examples for name, split in manifest.splits.items()} == {
        "train": 8,
        "validation": 4,
    }


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (striped(3), "value 3, which is not a class: classes are 0 to 2"),
        (striped(1, 21), "has 30 x 20 pixels, but its mask 30 x 21"),
        (picture(), "mask in mode RGB"),
        (None, "has no mask a/0.png"),
        (b"nothing", "damaged mask"),
    ],
)
def test_an_image_without_a_mask_that_fits_is_rejected_with_the_reason(folders, mask, reason):
    path = folders / "masks/a/0.png"
    path.unlink()
    if isinstance(mask, bytes):
        path.write_bytes(mask)
    elif mask is not None:
        save(path, mask)
    prepare(folders, max_rejected="1")
    assert len(records(folders)) == 11
    ((name, stated),) = reasons(folders / "out").items()
    assert name == "a/0.jpg"
    assert reason in stated


@pytest.mark.parametrize("masks", ["images", "images/masks"])
def test_a_mask_is_no_image(tmp_path, masks):
    for number in range(4):
        save(tmp_path / f"images/{number}.jpg", picture(seed=number))
        save(tmp_path / masks / f"{number}.png", striped(1 + number % 2))
    (tmp_path / "images/broken.jpg").symlink_to("nothing")
    save(tmp_path / masks / "broken.png", striped(1))
    prepare_segmentation(
        PrepareSegmentationOptions(
            images=str(tmp_path / "images"), masks=str(tmp_path / masks), classes=CLASSES,
            output=str(tmp_path / "out"), processes=1, held_out=0.25, max_rejected="1",
        ),
        "prepare segmentation",
    )  # fmt: skip
    assert sorted(records(tmp_path)) == [f"{number}.jpg" for number in range(4)]


def test_a_file_that_is_no_image_by_its_name_does_not_count_as_rejected(folders):
    (folders / "images/readme.txt").write_text("of the images")
    assert len(prepared(folders)) == 12
    assert "readme.txt" in (folders / "out/rejected.csv").read_text()


@pytest.mark.parametrize(("image", "mask"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_folders_and_names_with_accents_are_found_in_either_form(tmp_path, image, mask):
    for number in range(4):
        name = f"a/\u00e9t\u00e9/\u00fc{number}"
        save(tmp_path / "images" / f"{normalize(image, name)}.jpg", picture(seed=number))
        save(tmp_path / "masks" / f"{normalize(mask, name)}.png", striped(1 + number % 2))
    assert len(prepared(tmp_path)) == 4


def test_a_changed_mask_makes_another_data_set(folders):
    prepare(folders)
    save(folders / "masks/a/0.png", striped(2))
    with pytest.raises(DataError, match="out"):
        prepare(folders)


def test_what_cannot_be_is_refused_at_once(tmp_path):
    (tmp_path / "images").mkdir()
    with pytest.raises(ConfigError) as caught:
        prepare_segmentation(
            PrepareSegmentationOptions(
                images=str(tmp_path / "images"), masks="nowhere", classes=("a", "a")
            ),
            "",
        )
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "--masks",
        "--classes",
    ]


@pytest.mark.parametrize(
    ("mask", "fault"),
    [
        (striped(3), "value 3, which is not a class"),
        (striped(1, 21), "has 30 x 20 pixels, but its mask 30 x 21"),
        (picture(), "mask in mode RGB"),
        (b"no image", "damaged mask"),
        (striped(2), None),
    ],
)
def test_a_verification_looks_into_stored_masks(tmp_path, mask, fault):
    if not isinstance(mask, bytes):
        save(tmp_path / "mask.png", mask)
        mask = (tmp_path / "mask.png").read_bytes()
    found = stored_mask_fault(mask, 30, 20, 3)
    assert found is None if fault is None else fault in found


def test_one_class_beside_the_background_is_enough_to_learn(folders):
    for number in range(12):
        save(folders / "masks" / "ab"[number % 2] / f"{number}.png", striped(1))
    manifest = prepare(folders, classes=CLASSES[:2])
    check_trainable(manifest, None, "out", SEGMENTATION)
    with pytest.raises(DataError, match="all training images are of the class 'cat'"):
        check_trainable(manifest, None, "out", CLASSIFICATION)


@pytest.mark.parametrize(("side", "network"), [(40, "dilated"), (80, "unet")])
def test_the_command_that_is_printed_trains_on_the_masks(tmp_path, capsys, side, network):
    for number in range(24):
        save(tmp_path / "images" / f"{number}.jpg", picture(side, side, number))
        save(tmp_path / "masks" / f"{number}.png", striped(1 + number % 2, side, side))
    prepare(tmp_path)
    print_suggestion(tmp_path / "out")
    (line,) = re.findall("^    (.*)$", capsys.readouterr().out, re.MULTILINE)
    config = parse_train(shlex.split(line)[2:])
    assert (config.task, config.model.network) == ("segmentation", network)
    assert config.data.dir == str(tmp_path / "out")
