"""The examples of pages for newcomers, from a folder of images to predictions, as they stand."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import ROOT, makefile
from tests.trainer.support.command import result
from tools.benchmarks.photos import write_photos
from trainer.data.manifest import load_manifest

EXAMPLE = re.compile(r"<!-- the example, .*?-->\n(.*?)<!-- the example ends -->", re.DOTALL)


def commands() -> list[str]:
    found = EXAMPLE.search((ROOT / "docs" / "train-on-your-images.md").read_text())
    assert found is not None
    return [line.strip() for line in found[1].splitlines() if line.startswith("    ")]


SHORTENED = {"train": {"ARGS": "--epochs 4"}}
"""Options that the environment adds to a command: 15 epochs are most of the time that all of it
takes."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("added", "top1"),
    [
        pytest.param(SHORTENED, 0.80, id="4 epochs"),
        pytest.param({}, 0.94, id="as it is written"),
    ],
)
def test_the_example_of_the_page_works(
    tmp_path: Path, added: Mapping[str, Mapping[str, str]], top1: float
) -> None:
    # The project's folder as a newcomer sees it, except that what is written lands elsewhere.
    for name in (".tools", ".venv", ".venv-trainer", "common", "environments", "locks",
                 "pyproject.toml", "scripts", "tools", "trainer", "Makefile"):  # fmt: skip
        (tmp_path / name).symlink_to(ROOT / name)
    said = {}
    for command in commands():
        line = command.split("#")[0]
        name = line.split()[1]
        done = subprocess.run(
            shlex.split(line),
            cwd=tmp_path,
            env={**makefile.environment(), **added.get(name, {})},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        said[name] = done
    manifest = load_manifest(tmp_path / "data" / "images")
    assert {name: split.examples for name, split in manifest.splits.items()} == {
        "train": 450,
        "validation": 50,
    }
    assert "0 faults" in said["verify"].stdout
    assert (tmp_path / "data" / "images" / "inspect.html").stat().st_size > 100_000
    run = tmp_path / "runs" / "latest"
    assert result(run)["top1"] >= top1
    stored = json.loads((run / "config.json").read_text())
    assert stored["data_version"] == manifest.version
    assert f"{result(run)['top1']:.2%}" in said["evaluate"].stdout
    firsts = re.findall(r"data/photos/rocket/\d+\.jpg\n +[\d.]+%  (\w+)", said["predict"].stdout)
    assert len(firsts) == 50
    assert firsts.count("rocket") >= 45
    # Nothing that a newcomer would have to explain away.
    assert "GeneratorDataset" not in said["train"].stdout + said["train"].stderr


@pytest.mark.long
def test_the_calls_of_the_page_for_python_work(tmp_path: Path) -> None:
    write_photos(tmp_path / "data" / "photos", 100)
    page = (ROOT / "docs" / "python.md").read_text()
    found = EXAMPLE.search(page)
    assert found is not None
    code = found[1].strip().removeprefix("```python").removesuffix("```")
    done = subprocess.run(
        [sys.executable, "-c", code.replace('"4"', '"2"')],
        cwd=tmp_path,
        env={**makefile.environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()
    classes = {path.name for path in (tmp_path / "data" / "photos").iterdir()}
    predicted, missing = last[-3].split(" ", 2), last[-2]
    assert predicted[0] in classes
    assert 0 < float(predicted[1]) <= 1
    assert missing.split(" ", 2)[1:] == ["0.0", "cannot be read (No such file or directory)"]
    top1, loss, examples = map(float, last[-1].split())
    assert (examples, loss > 0) == (10, True)
    assert top1 == result(tmp_path / "runs" / "latest")["top1"]
