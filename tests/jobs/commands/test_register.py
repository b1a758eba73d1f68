import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from common.errors import ConfigError, UserError
from jobs.assets import data_sets, models
from jobs.azure.job_records import Job
from jobs.azure.storage import Blob, listed
from jobs.azure.workspace import connect
from jobs.commands import register
from jobs.commands.register import RegisterOptions, TrainedRun
from jobs.errors import ConflictError, MissingError
from tests.jobs.support.folders import write_shards
from tests.jobs.support.live import sdk
from tests.jobs.support.platform import platform
from tests.jobs.support.runs import answer, container, declare_job, put
from trainer.data.manifest import read_manifest
from trainer.leaves import TASKS

CONFIG = {"config": {"preset": "imagenet-ndv2"}}
RESULT = {"top1": 0.761, "top5": None, "steps": 450, "epochs": 90.0, "images_per_second": 640.5}
FACTS = {"step": 450, "data_version": "abcdef0123456789", "code_version": "0.1.0"}


def files(run, *, config=CONFIG, result=RESULT, facts=FACTS):
    folder = f"runs/{run}/{run}"
    found = {f"{folder}/config.json": config, f"{folder}/result.json": result,
             f"{folder}/export/export.json": facts}  # fmt: skip
    found = {name: json.dumps(data).encode() for name, data in found.items() if data is not None}
    if facts is not None:
        found[f"{folder}/export/saved_model/saved_model.pb"] = b"graph"
    return found


def model_of(live, run, **options):
    return register.run(RegisterOptions(name=run, **options), live.outputs, as_json=True)


def test_a_trained_run_becomes_a_version_with_its_metrics_and_versions(live, capsys):
    declare_job(live, "fine-r1", tags={"run": "fine", "code": "0ld"})
    declare_job(live, "fine-r2", tags={"run": "fine", "code": "c0de"})
    put(live, files("fine"))
    assert model_of(live, "fine-r1") == 0
    done = answer(capsys)
    name, version = done["model"].split(":")
    found = sdk(live).models.get(name, version)
    assert name == "imagenet-ndv2"
    assert found.type == "custom_model"
    assert found.path.endswith(f"/datastores/training_data_results/paths/models/{name}/{version}")
    assert found.tags == {
        "run": "fine", "top1": "0.761", "steps": "450", "epochs": "90.0",
        "data_version": "abcdef0123456789", "code_version": "0.1.0", "code": "c0de",
    }  # fmt: skip
    assert found.properties["images_per_second"] == "640.5"


@pytest.mark.parametrize("part", ["config", "result", "facts"])
@pytest.mark.parametrize("content", [[1], 7, "x", {}, {"config": 1}])
def test_a_file_of_another_form_is_an_error_with_words(live, part, content):
    run = f"odd-{part}"
    put(live, files(run, **{part: content}))
    with pytest.raises(UserError, match=r"another form|is from step|has not completed"):
        model_of(live, run)


def test_the_best_weights_of_a_run_are_registered_with_every_metric_of_its_task(live, capsys):
    metrics = {metric.key: 0.25 for metric in TASKS["multilabel"].evaluation}
    result = {**metrics, "baseline": metrics, "steps": 450, "evaluated_step": 300}
    put(live, files("early", result=result, facts=FACTS | {"step": 300}))
    assert model_of(live, "early") == 0
    tags = answer(capsys)["tags"]
    assert tags.items() >= dict.fromkeys(metrics, "0.25").items()
    assert "baseline" not in tags


def test_the_same_run_again_is_the_same_version(live, capsys):
    put(live, files("twice"))
    model_of(live, "twice")
    first = answer(capsys)
    live.azure.admin.forget_requests()
    model_of(live, "twice")
    again = answer(capsys)
    assert (again["model"], first["new"], again["new"]) == (first["model"], True, False)
    assert [r for r in live.azure.requests if r.method == "PUT"] == []


def content(client, folder):
    return {
        name: client.download_blob(f"{folder}/{name}").readall() for name in listed(client, folder)
    }


def test_a_version_stays_what_it_is_when_its_run_goes_on(live, capsys):
    client = put(live, files("fixed"))
    model_of(live, "fixed")
    folder = answer(capsys)["uri"].partition("/paths/")[2]
    export = content(client, "runs/fixed/fixed/export")
    assert content(client, folder) == export
    put(live, {name: b"other" for name in files("fixed") if "/export/" in name})
    assert content(client, folder) == export


def test_what_an_earlier_registration_left_half_copied_is_mended(live, capsys):
    version = hashlib.sha256(b"half").hexdigest()[: register.VERSION_LENGTH]
    folder = f"models/imagenet-ndv2/{version}"
    client = put(live, files("half") | {f"{folder}/{name}": b"old" for name in
                                        ("export.json", "saved_model/gone.pb")})  # fmt: skip
    model_of(live, "half")
    assert answer(capsys)["uri"].endswith(folder)
    assert content(client, folder) == content(client, "runs/half/half/export")


def test_an_export_that_changes_while_it_is_copied_is_not_registered(live, monkeypatch):
    put(live, files("moving"))
    copy_one = models._copy_one

    def changing(client, source, blob, target):
        copy_one(client, source, blob, target)
        put(live, {f"{source.rpartition('/export/')[0]}/export/export.json": b"{}"})

    monkeypatch.setattr(models, "_copy_one", changing)
    with pytest.raises(UserError, match="changed during the copy, so nothing was registered"):
        model_of(live, "moving")
    assert not [r for r in live.azure.requests if r.method == "PUT" and "/models/m" in r.path]


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({}, "a: missing"),
        ({"a": (2, b"m")}, "a: 2 bytes instead of 1"),
        ({"a": (1, b"n")}, "a: its MD5 differs"),
        ({"a": (1, b"m"), "b": (1, b"m")}, "b: unexpected file"),
    ],
)
def test_a_copy_is_compared_by_names_sizes_and_hashes(there, words):
    wanted = {"a": Blob("a", 1, b"m", None, "e")}
    found = {name: Blob(name, *what, None, "f") for name, what in there.items()}
    with pytest.raises(UserError, match=words):
        models.check_copy("models/x/1", wanted, found)
    models.check_copy("models/x/1", wanted, wanted)


def test_the_code_is_that_of_the_attempt_that_wrote_the_result():
    jobs = [
        Job(f"x-r{n}", "Completed", "c", 1, datetime(2026, 11, 22, n, tzinfo=UTC), None,
            {"code": f"c{n}"}) for n in (1, 2, 3)]  # fmt: skip
    half_past = datetime(2026, 11, 22, 2, 30, tzinfo=UTC)
    assert register.code_of(jobs, half_past) == "c2"
    assert register.code_of([], half_past) is None


def test_a_run_that_was_exported_again_does_not_change_its_version(live):
    put(live, files("changed"))
    model_of(live, "changed")
    put(live, files("changed", result=RESULT | {"steps": 900}, facts=FACTS | {"step": 900}))
    with pytest.raises(ConflictError, match="from an earlier export"):
        model_of(live, "changed")
    assert model_of(live, "changed", model="other") == 0


@pytest.mark.parametrize(
    ("run", "missing", "words"),
    [
        ("x1", {"config": None}, r"there is no folder runs/x\w+/x\w+"),
        ("x2", {"result": None}, "has not completed.*follow x.* --supervise"),
        ("x3", {"facts": None}, "has no exported model.*--export True"),
        (
            "x4",
            {"facts": FACTS | {"step": 300}},
            "model is from step 300, but its result is that of step 450",
        ),
    ],
)
def test_what_is_no_final_model_is_refused(live, run, missing, words):
    put(live, files(run, **missing))
    with pytest.raises((UserError, MissingError), match=words):
        model_of(live, run)


def test_a_name_that_azure_would_not_take_is_refused(live):
    with pytest.raises(ConfigError, match="--model: 'a b'"):
        model_of(live, "fine", model="a b")


def test_two_runs_of_one_model_are_two_versions():
    found = TrainedRun(CONFIG, RESULT, FACTS, "digest", datetime(2026, 11, 22, tzinfo=UTC))
    one, other = (
        register.describe(RegisterOptions(name=name), platform(), found, None)
        for name in ("one", "other")
    )
    assert one.name == other.name
    assert one.version != other.version
    assert replace(one) == register.describe(RegisterOptions("one-r3"), platform(), found, None)


def test_a_data_set_that_is_in_storage_already_is_registered(live, capsys, tmp_path):
    folder = write_shards(tmp_path / "set")
    for path in folder.iterdir():
        container(live, "prepared").upload_blob(f"elsewhere/birds/{path.name}", path.read_bytes())
    assert model_of(live, "prepared/elsewhere/birds/") == 0
    version = read_manifest(folder).version
    assert answer(capsys)["data"] == f"birds:{version}"
    found = data_sets.versions(connect(live.outputs).manager, "birds")
    assert found == {version: "/datastores/training_data_prepared/paths/elsewhere/birds"}


def test_a_data_set_takes_no_name_of_a_model(live):
    with pytest.raises(ConfigError, match="prepared/birds is a data set and no run"):
        model_of(live, "prepared/birds", model="birds")
