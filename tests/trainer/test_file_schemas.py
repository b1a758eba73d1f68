"""The files of a run that has just ended follow the published schemas."""

import json

import pytest

from tests.trainer.support.command import TINY
from tests.trainer.support.forked import fork_trainer
from tools.references.schemas import SCHEMAS

jsonschema = pytest.importorskip("jsonschema", reason="`make setup` installs jsonschema")


@pytest.mark.slow
def test_the_files_of_a_run_follow_their_schemas(tmp_path):
    options = [option for option in TINY if option not in ("--export", "False")]
    done = fork_trainer(
        *("train", "--preset", "digits", "--name", "run", *options),
        *("--log.report", "False", "--export", "True"),
        cwd=tmp_path,
        ranks=2,
    )
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "run"
    lines = (run / "metrics.jsonl").read_text().splitlines()
    files = {
        "config": [(run / "config.json").read_text()],
        "metrics": lines,
        "result": [(run / "result.json").read_text()],
        "export": [(run / "export" / "export.json").read_text()],
        "manifest": [(tmp_path / "data" / "digits" / "manifest.json").read_text()],
    }
    assert files.keys() == SCHEMAS.keys()
    assert {json.loads(line)["event"] for line in lines} >= {
        *("start", "train", "evaluation", "checkpoint", "predictions", "finish"),
    }
    for name, texts in files.items():
        validator = jsonschema.Draft202012Validator(SCHEMAS[name])
        for text in texts:
            problems = [error.message for error in validator.iter_errors(json.loads(text))]
            assert problems == [], name
