"""Statements of a run, and findings about a run that differs from them."""

import base64
import hashlib
import json
import random
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("cryptography", reason="cryptography is not installed (optional group)")

from common.errors import ConfigError
from tests import ROOT
from tests.trainer.extras.evidence import conftest
from tests.trainer.extras.evidence.keys import write_keys
from tests.trainer.extras.evidence.mutations import (
    MUTATIONS,
    checkpoints,
    flip,
    named,
    run_of,
    statements,
)
from tests.trainer.support.command import TINY
from tests.trainer.support.forked import fork_trainer
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.format import META, STATE
from trainer.checkpoints.names import key_of
from trainer.errors import CheckpointError
from trainer.extras.evidence.command import EvidenceError, verify_model
from trainer.extras.evidence.leaf import EvidenceOptions
from trainer.extras.evidence.observer import EvidenceObserver
from trainer.extras.evidence.options import DescribeModelOptions, VerifyModelOptions
from trainer.extras.evidence.replay import links
from trainer.extras.evidence.signing import PublicKey
from trainer.extras.evidence.statements import CHECKPOINTS, Chain
from trainer.extras.evidence.verify import verify
from trainer.extras.evidence.views import describe_model
from trainer.leaves import tell_rewritten
from trainer.own_code.code import OwnCode

pytestmark = pytest.mark.slow

VALIDATORS = ROOT / ".tools" / "validators" / "bin" / "python"
CHECKED = VerifyModelOptions("runs/run", key="key.pub.pem", sample=0)


def launched(args, ranks, log):
    """Run a replay with the small model; see `trainer.extras.evidence.replay.Launch`."""
    ended = fork_trainer(*args, cwd=Path.cwd(), ranks=ranks)
    log.write_text(ended.stdout + ended.stderr)
    return ended.returncode


# 1. Honest runs.


def test_an_honest_run_holds(place, capsys):
    verify_model(CHECKED)
    out = capsys.readouterr().out
    assert "every statement holds; no step was replayed" in out
    assert "deleted as the run keeps few, so steps begin at none of: 5" in out
    kinds = [path.stem[7:] for path in statements(place)]
    first = ["start", "checkpoint", "checkpoint", "checkpoint", "checkpoint"]
    assert kinds == [*first, "start", "checkpoint", "result", "export"]


def test_unsigned_statements_and_unchecked_signatures_are_said(place):
    (note,) = [one for one in verify(run_of(place)).findings if "key" in one.text]
    assert "is carried by the statements themselves; give --key to check it" in note.text
    with pytest.raises(EvidenceError, match=r"is signed by key \w+, not by"):
        verify_model(VerifyModelOptions("runs/run", key="other.pub.pem", sample=0))
    chain = Chain(place / "runs" / "unsigned")
    chain.append("export", {"export/x": "0"}, {"step": 1, "time": "now", "facts": {}})
    found = verify(place / "runs" / "unsigned")
    assert any("unsigned: they show damage and mistakes" in one.text for one in found.findings)


def test_a_forged_signature_is_found_without_a_key_at_hand(place):
    path = statements(place)[-1]
    envelope = json.loads(path.read_text())
    signature = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    signature[5] ^= 1
    envelope["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    path.write_text(json.dumps(envelope))
    assert ["its signature is forged" in one.text for one in verify(run_of(place)).broken] == [True]


def test_both_kinds_of_key_sign_and_others_are_refused(place):
    chain = Chain(place / "runs" / "signed", _signer("other.pem"))
    one = chain.append("export", {"export/x": "0"}, {"step": 1, "time": "now", "facts": {}})
    key = PublicKey(Path("other.pub.pem"))
    ((name, signature),) = one.signatures
    assert name == key.key_id
    assert key.has_signed(one.message, signature)
    assert not key.has_signed(one.message + b" ", signature)
    for file in ("key.pub.pem", "absent.pem", "runs/run/config.json"):
        with pytest.raises(ConfigError, match=r"--evidence\.key: "):
            _signer(file)


def _signer(file):
    from trainer.extras.evidence.signing import FileKey

    return FileKey(Path(file))


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_what_a_killed_attempt_did_not_state_is_stated_by_the_next(place, lost):
    for path in statements(place)[-lost:]:
        path.unlink()
    with pytest.raises(EvidenceError, match="cannot be shown from its statements"):
        verify_model(CHECKED)
    EvidenceObserver(run_of(place), EvidenceOptions(key="key.pem")).end(0, failed=False)
    verify_model(CHECKED)
    again = len(statements(place))
    EvidenceObserver(run_of(place), EvidenceOptions(key="key.pem")).end(0, failed=False)
    assert len(statements(place)) == again


def test_two_attempts_that_live_at_once_write_no_statement_twice(place):
    old, new = (Chain(run_of(place), _signer("key.pem")) for _ in range(2))
    facts = {"step": 1, "time": "now", "facts": {}}
    numbers = [chain.append("export", {}, facts).number for chain in (new, old, new, new, old)]
    assert numbers == [10, 11, 12, 13, 14]
    assert verify(run_of(place)).statements[-1].number == 14
    assert not [one for one in verify(run_of(place)).broken if "evidence/" in one.link]


def test_a_failure_ends_the_statements_and_not_the_run(place, capfd):
    evidence = run_of(place) / "evidence"
    shutil.rmtree(evidence)
    evidence.write_text("a file where the folder should be")
    EvidenceObserver(run_of(place), EvidenceOptions()).end(0, failed=False)
    assert "no further statements about this attempt are written" in capfd.readouterr().err


# 2. Mutations.


def _is_caught(mutation, place, seed):
    broken, said = mutation(place, random.Random(seed))
    with pytest.raises(EvidenceError) as caught:
        verify_model(CHECKED)
    lines = [line for line in str(caught.value).splitlines() if line.startswith(f"  - {broken}: ")]
    assert any(said in line for line in lines), f"{broken}: {said}\n{caught.value}"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutation_is_caught_and_named(mutation, place):
    _is_caught(mutation, place, 0)


@pytest.mark.long
def test_150_mutations_are_caught_and_named(made, tmp_path, monkeypatch):
    cases = [(one, seed) for one, count in MUTATIONS.items() for seed in range(count)]
    assert len(cases) == 150
    for number, (mutation, seed) in enumerate(cases):
        place = tmp_path / f"{number}"
        shutil.copytree(made, place, symlinks=True)
        monkeypatch.chdir(place)
        _is_caught(mutation, place, seed)
        shutil.rmtree(place)


def test_a_changed_byte_in_any_file_is_named_or_the_file_is_listed_as_not_covered(place):
    run = run_of(place)
    notes = {one.link: one.text for one in verify(run).findings if one.level == "note"}
    assert "no statement covers" in notes["tblogs"]
    files = [path for path in run.rglob("*") if path.is_file() and path.stat().st_size]
    assert {"report.html", "predictions.csv"} <= {path.name for path in files}
    for path in files:
        name, content = named(path, place), path.read_bytes()
        flip(path, len(content) // 2)
        found = verify(run)
        path.write_bytes(content)
        assert found.broken or name.split("/")[0] in notes, name
        top = name.split("/")[0]
        if top not in ("evidence", "tblogs") and (top != CHECKPOINTS or path.name in (STATE, META)):
            assert name in [one.link for one in found.broken], name
    assert not verify(run).broken


def test_a_changed_file_of_the_kept_code_is_named(place):
    path = keep_code(run_of(place))
    assert not verify(run_of(place)).broken
    flip(path, 3)
    (found,) = verify(run_of(place)).broken
    assert found.link == named(path, place)
    assert "has other bytes than in statement 10 (start)" in found.text
    path.unlink()
    (found,) = verify(run_of(place)).broken
    assert (found.link, found.text) == (named(path, place), "is missing")


def keep_code(run):
    """State a start with an own network, whose code the run keeps; return a file of that."""
    content = b"width = 0.2\n"
    code = OwnCode({"mine/net.py": hashlib.sha256(content).hexdigest()})
    path = run / "code" / code.digest / "mine" / "net.py"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    chain = Chain(run, _signer("key.pem"))
    (first, *_) = chain.statements
    configuration = {**first.predicate["configuration"], "own_network": code.to_json()}
    chain.append("start", first.subjects, {**first.predicate, "configuration": configuration})
    return path


def test_a_report_that_a_command_writes_anew_is_stated_and_the_other_files_keep_their_digests(
    place,
):
    run = run_of(place)
    before = len(statements(place))
    (run / "report.html").write_text("another page")
    flip(run / "predictions.csv", 3)
    tell_rewritten(run, "report.html")
    assert len(statements(place)) == before + 1
    tell_rewritten(run, "report.html")
    assert len(statements(place)) == before + 1
    assert [one.link for one in verify(run, PublicKey(Path("key.pub.pem"))).broken] == [
        "predictions.csv"
    ]


# 3. Replays.


def test_steps_are_repeated_to_the_bit_also_to_checkpoints_that_are_gone(place, capsys):
    assert links(verify(run_of(place))) == [(0, 5), (10, 15), (15, 16), (16, 20)]
    verify_model(VerifyModelOptions("runs/run", from_=0, to=20, shards=False), launched)
    out = capsys.readouterr().out
    for steps in ("0 to 5", "5 to 10", "10 to 15", "15 to 16", "16 to 20"):
        assert f"replayed steps {steps}: bit-identical" in out


def test_a_replay_that_cannot_begin_is_refused(place):
    for begin, end, why in ((5, 20, "was deleted"), (0, 17, "no checkpoint of step 17")):
        with pytest.raises(CheckpointError, match=why):
            verify_model(VerifyModelOptions("runs/run", from_=begin, to=end), launched)
    with pytest.raises(ConfigError, match="--from and --to: give both"):
        verify_model(VerifyModelOptions("runs/run", from_=5), launched)


def test_a_forged_chain_that_holds_together_is_caught_by_a_replay(place):
    """An attacker who can write everything, and has no key to fear, changes a weight and states
    that."""
    run = run_of(place)
    newest = checkpoints(place)[-1]
    saved = CheckpointFolder(run / "checkpoints").newest()
    tensors, meta = saved.load(), saved.meta
    name = next(name for name, array in tensors.items() if array.dtype == np.float32)
    tensors[name].reshape(-1)[0] += 1
    shutil.rmtree(newest)
    key = key_of(newest.name)
    CheckpointFolder(run / "checkpoints").save(key.step, tensors, meta, key.attempt)
    stated = verify(run).statements
    shutil.rmtree(run / "evidence")
    chain = Chain(run)
    renamed = {}
    for one in stated:
        subjects, predicate = dict(one.subjects), json.loads(json.dumps(one.predicate))
        for path in subjects:
            if newest.name in path:
                from trainer.extras.evidence.statements import digest_file

                subjects[path] = digest_file(run / path)
        if predicate.get("start"):
            predicate["start"] = renamed[predicate["start"]]
        if one.kind == "result":
            predicate["checkpoint"]["sha256"] = subjects_of(chain, newest.name)
        renamed[one.digest] = chain.append(one.kind, subjects, predicate).digest
    verify_model(VerifyModelOptions("runs/run", sample=0))
    with pytest.raises(
        EvidenceError, match="weights of step 20 do not follow from step 16"
    ) as said:
        verify_model(VerifyModelOptions("runs/run", from_=16, to=20), launched)
    assert f"{name} differs in 1 of" in str(said.value)


def subjects_of(chain, name):
    """The stated digest of the tensors of a checkpoint."""
    return next(
        one.state
        for one in chain.statements
        if one.kind == "checkpoint" and one.predicate["name"] == name
    )


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_20_steps_are_repeated_to_the_bit_with_1_2_and_4_ranks(
    workplace, monkeypatch, capsys, ranks
):
    monkeypatch.chdir(workplace)
    options = (*TINY, "--name", "run", "--max-steps", "40", "--checkpoint.every-steps", "20")
    virtual = ("--virtual-ranks.count", "4", "--batch-size", "8", "--checkpoint.every-epochs", "0")
    ended = fork_trainer("train", *options, *virtual, "--ranks", "2", cwd=workplace, ranks=2)
    assert ended.returncode == 0, ended.stderr
    verify_model(VerifyModelOptions("runs/run", from_=20, to=40, ranks=ranks), launched)
    assert "replayed steps 20 to 40: bit-identical" in capsys.readouterr().out


@pytest.mark.long
def test_20_honest_runs_with_kills_raise_no_alarm(workplace, monkeypatch):
    write_keys(workplace)
    monkeypatch.chdir(workplace)
    for seed in range(20):
        rng = random.Random(seed)
        keep, name = rng.choice(["1", "2", "3"]), f"run{seed}"
        options = (*conftest.OPTIONS, "--name", name, "--checkpoint.keep", keep)
        step = 0
        while True:
            step += rng.randrange(1, 12)
            number = rng.choice([signal.SIGKILL, signal.SIGTERM])
            try:
                ended = fork_trainer(*options, cwd=workplace, ranks=1, stop_at=(0, number, step))
            except AssertionError as error:
                assert "ended with -9" in str(error)  # noqa: PT017 the kill of this test
                continue
            if ended.returncode == 0:
                break
        verify_model(VerifyModelOptions(f"runs/{name}", key="key.pub.pem", sample=0))
        found = verify(Path("runs") / name)
        assert not found.broken
        assert not found.gaps
    verify_model(VerifyModelOptions("runs/run0", from_=0, to=20), launched)


# 4. Cards.


def test_other_projects_accept_statements_and_cards(place):
    if not VALIDATORS.exists():
        pytest.skip(f"{VALIDATORS} is not there; make .tools/validators/.ready installs it")
    describe_model(DescribeModelOptions("runs/run"))
    command = [VALIDATORS, Path(__file__).with_name("validators.py"), run_of(place), "key.pub.pem"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    top1 = json.loads((run_of(place) / "result.json").read_text())["top1"]
    assert told["statements"] == len(statements(place))
    assert told["task"] == "image-classification"
    assert told["metric"] == ["top1", top1]


def test_a_card_repeats_what_was_stated(place, capsys):
    describe_model(DescribeModelOptions("runs/run", output="views"))
    assert capsys.readouterr().out.split() == ["views/README.md"]
    (*_, newest) = Chain(run_of(place)).statements
    assert newest.digest in Path("views/README.md").read_text()
    with pytest.raises(CheckpointError, match="has no statements"):
        describe_model(DescribeModelOptions("data/digits"))
