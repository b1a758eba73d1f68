"""The language host runs policy packs as Pulumi's own does."""

import os
import subprocess
import sys
from types import SimpleNamespace

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from rehearsal.pulumi import language_host
from rehearsal.pulumi.policy_packs import PolicyPack

PACK = """
import os
import pulumi
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy

ABOUT = f"{pulumi.get_stack()} in {os.getcwd()}: {pulumi.Config('project').get('key')}"
policy = ResourceValidationPolicy("says", "Says so.", lambda args, report: report(ABOUT))
PolicyPack("pack", [policy], EnforcementLevel.MANDATORY)
"""


@pytest.fixture
def pack(tmp_path):
    """A pack that is started by its first request, of a program to be written."""

    def pack(text):
        (tmp_path / "__main__.py").write_text(text, encoding="utf-8")
        request = SimpleNamespace(
            args=["127.0.0.1:1"],
            env=[f"{name}={value}" for name, value in os.environ.items()],
            info=SimpleNamespace(program_directory=str(tmp_path)),
        )
        packs.append(PolicyPack(request))
        return packs[-1]

    packs = []
    yield pack
    for one in packs:
        one.close()


@pytest.fixture
def ask():
    """The calls of an engine that has read a pack's port."""

    def ask(output):
        channels.append(grpc.insecure_channel(f"127.0.0.1:{int(next(output).stdout)}"))
        return analyzer_pb2_grpc.AnalyzerStub(channels[-1])

    channels = []
    yield ask
    for channel in channels:
        channel.close()


def configure(engine):
    engine.Handshake(analyzer_pb2.AnalyzerHandshakeRequest(engine_address="127.0.0.1:1"))
    engine.ConfigureStack(
        analyzer_pb2.AnalyzerStackConfigureRequest(
            stack="somewhere", project="project", dry_run=True, config={"project:key": "value"}
        )
    )


def test_a_pack_knows_its_stack_from_the_beginning(pack, ask, tmp_path):
    running = pack(PACK)
    engine = ask(running.output())
    configure(engine)
    (found,) = engine.Analyze(analyzer_pb2.AnalyzeRequest(type="a:b:C", name="one")).diagnostics
    assert found.policyName == "says"
    assert f"somewhere in {tmp_path}: value" in found.message


def test_what_a_pack_does_not_answer_is_not_answered(pack, ask):
    engine = ask(pack(PACK).output())
    configure(engine)
    with pytest.raises(grpc.RpcError) as refused:
        engine.Cancel(empty_pb2.Empty())
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_pack_that_does_not_start_says_why(pack, ask):
    output = pack("raise ValueError('nothing is right')").output()
    engine = ask(output)
    with pytest.raises(grpc.RpcError) as refused:
        configure(engine)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "the policy pack exited with status 1" in refused.value.details()
    written = ""
    while "nothing is right" not in written:
        written += next(output).stderr.decode()


def test_a_pack_that_writes_something_else_than_its_port_is_refused(pack, ask):
    engine = ask(pack("print('hello')").output())
    with pytest.raises(grpc.RpcError) as refused:
        configure(engine)
    assert "printed 'hello' instead of its port" in refused.value.details()


def test_what_a_pack_writes_and_how_it_ends_is_passed_on(pack, ask):
    text = "import os, threading\nprint(1, flush=True)\nprint('more', flush=True)\nos._exit(3)"
    output = pack(text).output()
    engine = ask(output)
    configure(engine)
    said = list(output)
    assert b"".join(one.stdout for one in said) == b"more\n"
    assert said[-1].exitcode == 3


def test_a_pack_that_is_closed_is_ended(pack, ask):
    running = pack(PACK.replace("{os.getcwd()}", "{os.getpid()}"))
    output = running.output()
    engine = ask(output)
    configure(engine)
    (found,) = engine.Analyze(analyzer_pb2.AnalyzeRequest(type="a:b:C", name="one")).diagnostics
    process = int(found.message.split("somewhere in ")[1].split(":")[0])
    os.kill(process, 0)
    running.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert [one.stdout for one in output if one.stdout] == []


def test_the_host_ends_with_the_engine(tmp_path):
    """The process whose death no other one reports, if it was killed."""
    host = language_host.write(tmp_path)
    started = (
        "import subprocess, sys; p = subprocess.Popen([sys.argv[1]]); print(p.pid, flush=True)"
    )
    engine = subprocess.Popen(
        [sys.executable, "-c", f"{started}; p.wait()", str(host)], stdout=subprocess.PIPE
    )
    with engine.stdout as output:
        numbers = {int(output.readline()), int(output.readline())}
        engine.kill()
        engine.wait()
        # The host holds the other end.
        assert output.read() == b""
    assert len(numbers) == 2


def test_the_official_host_is_found_on_the_path_and_beside_the_engine(tmp_path, monkeypatch):
    official, elsewhere = tmp_path / "official", tmp_path / "elsewhere"
    for folder in (official, elsewhere):
        folder.mkdir()
    engine = elsewhere / "pulumi"
    engine.symlink_to(official / "pulumi")
    monkeypatch.setenv("PATH", str(elsewhere))
    assert not language_host.is_installed(engine)
    language_host.write(official)
    assert language_host.is_installed(engine)
    monkeypatch.setenv("PATH", str(official))
    assert language_host.is_installed(tmp_path / "pulumi")
