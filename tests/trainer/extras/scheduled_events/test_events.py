"""Azure's announcements about a node: the reaction to each event, and a run that is stopped."""

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from common.errors import ConfigError
from common.waiting import wait_until
from rehearsal.machine_learning.metadata import Metadata
from tests.trainer.support.command import TINY, metrics
from tests.trainer.support.forked import fork_trainer
from trainer.checkpoints.folder import CheckpointFolder
from trainer.extras.scheduled_events.event_policy import Event, reaction, read_events
from trainer.extras.scheduled_events.leaf import EventOptions
from trainer.extras.scheduled_events.observer import (
    FILE,
    HOST_VARIABLE,
    IMDS,
    EventObserver,
    address_of,
)
from trainer.presets import PRESETS

JOB = "job"
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
SOON, LATER = NOW + timedelta(seconds=100), NOW + timedelta(minutes=15)


@pytest.fixture
def metadata():
    server = Metadata()
    yield server
    server.close()


@pytest.mark.parametrize(
    ("kind", "when", "name", "what"),
    [
        ("Preempt", LATER, "vm_1", "stop"),
        ("Preempt", None, "VM_1", "stop"),
        ("Preempt", LATER, "", "stop"),
        ("Preempt", LATER, "vm_2", "other node"),
        ("Terminate", LATER, "vm_1", "wait"),
        ("Reboot", LATER, "vm_1", "wait"),
        ("Reboot", SOON, "vm_1", "stop"),
        ("Redeploy", None, "vm_1", "stop"),
        ("Freeze", None, "vm_1", "note"),
        ("Something", SOON, "vm_1", "note"),
    ],
)
def test_what_is_done_about_an_event(kind, when, name, what):
    assert reaction(Event("1", kind, ("vm_0", "vm_1"), when), name, NOW) == what


def test_the_documented_form_of_an_answer_is_read():
    event = {
        "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["FrontEnd_IN_0", "BackEnd_IN_0"],
        "EventStatus": "Scheduled",
        "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT",
    }
    (read,) = read_events({"DocumentIncarnation": 1, "Events": [event]})
    assert read.not_before == datetime(2016, 9, 19, 18, 29, 47, tzinfo=UTC)
    assert read.words("wait") == (
        "Azure announces Reboot at 18:29:47 UTC: training continues until 120 s before"
    )
    (begun,) = read_events({"Events": [{**event, "NotBefore": ""}]})
    assert begun.not_before is None


@pytest.mark.parametrize("document", [{}, [], {"Events": None}, {"Events": [{}]}, "text"])
def test_an_answer_of_another_form_is_an_error(document):
    with pytest.raises(ValueError, match="not a list of events"):
        read_events(document)


@pytest.mark.parametrize(
    ("address", "environment", "asked"),
    [
        ("azure", {}, None),
        ("azure", {"AZUREML_RUN_ID": "a-r1"}, IMDS),
        ("azure", {"AZUREML_RUN_ID": "a-r1", HOST_VARIABLE: "http://h:1/x/"}, "http://h:1/x"),
        ("nowhere", {"AZUREML_RUN_ID": "a-r1"}, None),
        ("http://h:1/", {}, "http://h:1"),
    ],
)
def test_only_a_job_of_azure_asks_unless_an_address_is_given(address, environment, asked):
    assert address_of(EventOptions(address), environment) == asked


def test_another_address_is_refused():
    with pytest.raises(ConfigError, match=r"--events\.address: 'azur' must be azure, nowhere"):
        replace(PRESETS["digits"], events=EventOptions("azur"))


class Watched:
    """An observer of one rank, and its reactions."""

    def __init__(self, address, folder, *, local_rank=0):
        self.stopped = threading.Event()
        world = SimpleNamespace(rank=0, local_rank=local_rank)
        config = replace(PRESETS["digits"], events=EventOptions(address))
        observed = SimpleNamespace(config=config, folder=folder, communicator=world)
        self.observer = EventObserver(observed, self.stopped.set, {})
        self.folder = folder

    def end(self):
        self.observer.end(0, failed=False)
        return json.loads((self.folder / FILE).read_text())


def test_a_notice_is_told_once_with_what_is_done_and_stops_the_ranks(metadata, tmp_path, capfd):
    watched = Watched(f"{metadata.address(JOB)}/1", tmp_path)
    metadata.announce("job", "Freeze", nodes=[1])
    metadata.announce("job", "Preempt", nodes=[0])
    wait_until(lambda: "job/1" in metadata.asked, 20)
    assert not watched.stopped.wait(1.5)
    metadata.announce("job", "Preempt", nodes=[1])
    assert watched.stopped.wait(20)
    assert watched.end() == {
        "reached": True,
        "address": f"{metadata.address(JOB)}/1",
        "vm": "job_1",
    }
    said = capfd.readouterr().err
    assert said.count("\n") == 3
    assert "Azure announces Freeze" in said
    assert "it concerns another VM than this node" in said
    assert "all ranks stop after this step, and save" in said


def test_a_service_that_cannot_be_reached_is_told_once_and_ends_nothing(tmp_path, capfd):
    watched = Watched("http://127.0.0.1:9", tmp_path)
    assert not watched.stopped.wait(4)
    assert watched.end()["reached"] is False
    said = capfd.readouterr().err
    assert said.count("does not tell what Azure announces") == said.count("\n") == 1


def test_only_one_rank_of_a_node_asks(metadata, tmp_path):
    watched = Watched(f"{metadata.address(JOB)}/0", tmp_path, local_rank=1)
    assert not watched.stopped.wait(2.5)
    assert metadata.asked == []
    watched.observer.end(0, failed=False)
    assert not (tmp_path / FILE).exists()


@pytest.mark.slow
def test_after_a_notice_to_one_node_all_ranks_have_saved_the_step_that_they_left_after(
    workplace, metadata
):
    run = workplace / "runs" / "run"

    def take_node_1():
        wait_until(lambda: (run / "metrics.jsonl").exists() and metrics(run, "train"), 300)
        metadata.announce("job", nodes=[1])

    threading.Thread(target=take_node_1, daemon=True).start()
    nodes = [
        {
            "AZUREML_RUN_ID": "job",
            HOST_VARIABLE: f"{metadata.address(JOB)}/{node}",
            "HOROVOD_LOCAL_RANK": "0",
            "HOROVOD_LOCAL_SIZE": "1",
            "HOROVOD_CROSS_RANK": str(node),
            "HOROVOD_CROSS_SIZE": "2",
        }
        for node in (0, 1)
    ]
    ended = fork_trainer(
        *("train", "--preset", "digits", *TINY, "--name", "run", "--epochs", "4000"),
        *("--checkpoint.every-minutes", "60", "--evaluation.every-epochs", "0"),
        cwd=workplace,
        env=nodes,
    )
    assert ended.statuses == [143, 143]
    assert "rank 1: Azure announces Preempt" in ended.stderr
    assert sorted(metadata.asked) == ["job/0", "job/1"]
    # No step is lost: the newest checkpoint is of the last step that was taken.
    newest = CheckpointFolder(run / "checkpoints").newest()
    assert newest.meta["step"] == metrics(run, "train")[-1]["step"] > 1
    assert json.loads((run / FILE).read_text())["reached"] is True
