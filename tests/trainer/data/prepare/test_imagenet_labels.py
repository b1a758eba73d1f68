"""Classes of ImageNet: their names, and those of validation images."""

import pytest

from tests.trainer.support.data_sets.imagenet_files import (
    BIRD,
    MACHINE,
    SYNSETS,
    TENCH,
    WORDS,
    make_truth,
    make_validation,
    meta,
    numbers,
    put,
    write_files,
)
from trainer.data.prepare.imagenet import imagenet_inputs

# 1. Names of classes.


@pytest.mark.parametrize(("file", "gap"), [("words.txt", "\t"), ("LOC_synset_mapping.txt", " ")])
def test_a_class_has_its_first_word_and_its_synset_where_two_share_it(layout, tmp_path, file, gap):
    lines = [f"n{number:08d}{gap}thing {number}" for number in range(100)]
    lines += [f"{synset}{gap}{words}" for synset, words in WORDS.items()]
    layout["words"] = put(tmp_path / file, "\n".join(lines))
    inputs = imagenet_inputs(**layout)
    assert inputs.classes == ("tench", f"crane ({BIRD})", f"crane ({MACHINE})")
    assert inputs.synsets == SYNSETS


def test_a_synset_without_words_names_its_class(layout, tmp_path):
    layout["words"] = put(tmp_path / "words.txt", f"{TENCH}\ttench, Tinca tinca\n\n{BIRD}\n")
    inputs = imagenet_inputs(**layout)
    assert inputs.classes == ("tench", BIRD, MACHINE)
    assert inputs.notes[1].startswith("2 of 3 classes are named by their synset")


def test_the_development_kit_names_classes_unless_words_are_given(layout, tmp_path):
    layout["ground_truth"] = make_truth(tmp_path, "development kit")
    assert imagenet_inputs(**layout).classes[0] == "tench"
    layout["words"] = put(tmp_path / "words.txt", f"{TENCH}\tdoctor fish\n")
    assert imagenet_inputs(**layout).classes[0] == "doctor fish"


def test_without_words_classes_are_their_synsets(layout):
    assert imagenet_inputs(**layout).classes == SYNSETS


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"n00000001\tthing\n", "has words for none of the 3"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
    ],
)
def test_words_of_nothing_that_is_wanted_are_refused(fails, layout, tmp_path, text, match):
    layout["words"] = put(tmp_path / "words.txt", text)
    fails(layout, f"{layout['words']}: .*{match}")


# 2. Ground truth that does not fit.


def test_numbers_alone_are_refused_as_they_are_not_labels(fails, layout, tmp_path):
    layout["ground_truth"] = put(tmp_path / "truth.txt", numbers())
    fails(layout, r"numbers are not labels in the order of synsets.*ILSVRC2012_devkit_t12\.tar\.gz")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "is empty"),
        (f"{TENCH}\nfish\n", "line 2: 'fish' is not a synset"),
        ("ILSVRC2012_val_00000001.JPEG 65\n", "line 1: .* is not a synset"),
        (f"{TENCH}\n" * 4 + "n09999999\n", "1 synsets that are not among the 3 .*: n09999999"),
        (f"{TENCH}\n" * 4, "has ILSVRC2012_val_00000005.JPEG, but .* classes of 4 images"),
        (f"{TENCH}\n" * 6, "has 5 images .* classes of 6; .* ILSVRC2012_val_00000006.JPEG"),
        (f"ImageId,PredictionString\nx,{TENCH}\n", "line 2: is not like"),
        ("ImageId,PredictionString\nILSVRC2012_val_00000001,\n", "line 2: is not like"),
        (
            f"ImageId,PredictionString\nILSVRC2012_val_00000002,{TENCH} 1 2 3 4\n",
            "has 1 image, but not ILSVRC2012_val_00000001",
        ),
        (
            "ImageId,PredictionString\n"
            f"ILSVRC2012_val_00000001,{TENCH}\nILSVRC2012_val_00000001,{BIRD}\n",
            "line 3: has ILSVRC2012_val_00000001 a second time",
        ),
    ],
)
def test_ground_truth_that_does_not_fit_is_refused(fails, layout, tmp_path, text, match):
    layout["ground_truth"] = put(tmp_path / "truth.txt", text)
    assert str(layout["ground_truth"]) in fails(layout, match)


@pytest.mark.parametrize("number", ["0", "4", "77", "-1", "x"])
def test_a_number_that_is_no_leaf_of_the_development_kit_is_refused(
    fails, layout, tmp_path, number
):
    put(tmp_path / "meta.mat", meta())
    layout["ground_truth"] = put(tmp_path / "truth.txt", f"1\n2\n{number}\n1\n1\n")
    fails(layout, f"truth.txt, line 3: '{number}' is not an ILSVRC2012_ID")


def test_a_damaged_development_kit_is_refused(fails, layout, tmp_path):
    layout["ground_truth"] = path = make_truth(tmp_path, "development kit")
    whole = path.read_bytes()
    for length in (2, 50, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:length])
        fails(layout, f"{path}: ")
    put(tmp_path / "meta.mat", b"nonsense")
    layout["ground_truth"] = put(tmp_path / "truth.txt", numbers())
    fails(layout, "meta.mat: is not the development kit's table of synsets")


def test_a_sorted_validation_folder_of_other_classes_is_refused(fails, layout, tmp_path):
    folder = make_validation(tmp_path / "other", "sorted")
    write_files(folder, {"n09999999/ILSVRC2012_val_00000009.JPEG": b"x"})
    fails({**layout, "validation": folder}, "1 synsets that are not among the 3 classes")
