"""Files of scores that Spark's tasks write, compared with those of a pool of processes."""

import os
import signal
from pathlib import Path

import pytest

from tests.trainer.export.test_predict import draw
from tests.trainer.support.command import run_trainer
from tests.trainer.support.data_sets.image_folders import content
from tests.trainer.support.made_run import make_exported_run
from trainer import cli
from trainer.extras.spark.preparation import on_spark
from trainer.scoring import unit
from trainer.scoring.batch import score
from trainer.scoring.options import ScoreOptions

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def asked(digits_folder, tmp_path_factory):
    """Options for 40 images, of which one cannot be read, in files of 10."""
    root = tmp_path_factory.mktemp("scored")
    for number in range(40):
        draw(root / "images" / f"{number:03d}.png", number)
    (root / "images" / "007.png").write_bytes(b"years of work")
    run = make_exported_run(root / "run", digits_folder)
    return {"run": str(run), "input": str(root / "images"), "images_per_file": 10}


@pytest.fixture(scope="module")
def by_processes(asked, tmp_path_factory):
    # In a process of its own, as TensorFlow, which has made the run, does not survive a fork.
    place = tmp_path_factory.mktemp("processes")
    done = run_trainer("score", *flags(asked), "--output", "scores", "--processes", "2", cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    return content(place / "scores")


def flags(asked):
    return [f"--{name.replace('_', '-')}={value}" for name, value in asked.items()]


def test_the_files_are_those_of_processes(spark, asked, by_processes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["score", *flags(asked), "--output", "scores", "--with", "spark"]) == 0
    assert len(by_processes) == 2 * 4 + 2
    assert content(tmp_path / "scores") == by_processes


class DiesOnce:
    """Scores a unit; the first worker that is called is killed while it does."""

    def __init__(self, mark):
        self._mark = mark

    def __call__(self, one, advance):
        if not Path(self._mark).exists():
            Path(self._mark).touch()

            def advance(_):
                os.kill(os.getpid(), signal.SIGKILL)

        return unit.score_unit(one, advance)


def test_with_a_killed_worker_the_files_are_the_same(
    spark, asked, by_processes, tmp_path, monkeypatch
):
    monkeypatch.setattr("trainer.scoring.batch.score_unit", DiesOnce(str(tmp_path / "mark")))
    score(ScoreOptions(**asked, output=str(tmp_path / "scores")), on_spark(spark))
    assert (tmp_path / "mark").exists()
    assert content(tmp_path / "scores") == by_processes
