"""The sizes of locked wheels, and the limit of an image."""

import pytest

from environments import wheel_sizes
from tests import ROOT

IMAGES = ("cpu", "gpu")


def lock(image):
    return (ROOT / "locks" / f"{image}.txt").read_text()


@pytest.mark.parametrize("image", IMAGES)
def test_the_locked_wheels_fit_into_the_image(image):
    assert wheel_sizes.problems(image, lock(image), wheel_sizes.read()) == []


def test_a_dependency_that_is_too_large_is_told_before_an_image_is_built():
    sizes = {**wheel_sizes.read(), "giant": ("1.0", 900_000_000)}
    (told,) = wheel_sizes.problems("cpu", f"{lock('cpu')}giant==1.0 \\\n", sizes)
    assert "more than its limit of" in told
    assert "giant 900 MB" in told


def test_a_version_that_was_not_measured_is_told():
    changed = lock("cpu").replace("\nsix==", "\nsix==0.")
    (told,) = wheel_sizes.problems("cpu", changed, wheel_sizes.read())
    assert told.startswith("six 0.")


def test_a_package_has_the_bytes_of_its_files_and_of_the_bytecode_to_come(tmp_path):
    def write(name, count):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * count)

    write("tensorflow/__init__.py", 10)
    write("tensorflow/library.so", 100)
    write("tensorflow/__pycache__/__init__.cpython-311.pyc", 20)
    write("tensorflow/include/removed.h", 1000)
    write("other.py", 5000)
    info = "tensorflow_cpu-2.0.dist-info"
    write(f"{info}/METADATA", 0)
    (tmp_path / info / "METADATA").write_text("Name: tensorflow_cpu\nVersion: 2.0\n")
    names = [
        *("tensorflow/__init__.py", "tensorflow/library.so", "tensorflow/include/removed.h"),
        "tensorflow/__pycache__/__init__.cpython-311.pyc",
    ]
    (tmp_path / info / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    assert wheel_sizes.measure(tmp_path) == {"tensorflow-cpu": ("2.0", 123)}
