"""Published weights are fetched from a server in pieces, checked, and used by a network."""

import hashlib
import re
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import safetensors.numpy

from common.errors import ConfigError, UserError
from tests.trainer.model.torchvision.test_resnet import WIDTH, state_dict
from tests.trainer.support.pytorch_files import torch_save
from trainer.cli import main
from trainer.config import ModelConfig
from trainer.fitting.suggestion import stored_depth
from trainer.model.build import build_model
from trainer.model.initial_weights import load_initial_weights
from trainer.model.torchvision import fetch
from trainer.model.torchvision.options import WeightsOptions
from trainer.model.torchvision.published import ADDRESS, PUBLISHED


class Publisher(ThreadingHTTPServer):
    """Serves one file, and breaks off after some bytes as often as it is told to."""

    def __init__(self, content):
        self.content, self.breaks, self.asked = content, [], []
        super().__init__(("127.0.0.1", 0), Answer)

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}/models/"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        server, span = self.server, self.headers.get("Range", "")
        server.asked.append((self.path, span))
        begin = int(span.removeprefix("bytes=").rstrip("-") or 0)
        if begin >= len(server.content):
            self.send_response(416)
            self.end_headers()
            return
        left = server.content[begin:]
        self.send_response(206 if span else 200)
        self.send_header("Content-Length", str(len(left)))
        self.end_headers()
        self.wfile.write(left[: server.breaks.pop(0)] if server.breaks else left)

    def log_message(self, *_):
        pass


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """A server with a file in the published layout, whose name has the beginning of its SHA-256."""
    path = tmp_path / "made.pth"
    torch_save(path, state_dict(18, classes=7))
    content = path.read_bytes()
    begin = hashlib.sha256(content).hexdigest()[:8]
    row = replace(PUBLISHED["resnet18"], file=f"resnet18-{begin}.pth")
    monkeypatch.setitem(PUBLISHED, "resnet18", row)
    monkeypatch.chdir(tmp_path)
    with Publisher(content) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def fetched(publisher, **more):
    fetch.run(WeightsOptions("resnet18", address=publisher.address, **more))


def test_a_file_is_fetched_checked_and_converted_and_a_network_starts_from_it(
    publisher, tmp_path, capsys
):
    assert main(["weights", "resnet18", "--address", publisher.address]) == 0
    row = PUBLISHED["resnet18"]
    assert publisher.asked == [(f"/models/{row.file}", "")]
    (written,) = (tmp_path / "weights").iterdir()
    assert written.name == row.stored
    assert "BSD 3-Clause" in capsys.readouterr().out
    assert stored_depth(str(written)) == 18
    assert safetensors.numpy.load_file(written).keys() == state_dict(18).keys()
    model = build_model(ModelConfig(depth=18, width=WIDTH, image_size=40), 5, "float32", 0)
    assert "logits differs and keeps its own" in load_initial_weights(model, written)
    # It is there, so nothing is asked for again.
    fetched(publisher)
    assert len(publisher.asked) == 1


def test_what_came_before_the_connection_broke_is_kept_and_the_rest_is_fetched(publisher, tmp_path):
    publisher.breaks = [100_000]
    with pytest.raises(UserError, match=r"65,536 bytes are kept; the same command continues"):
        fetched(publisher)
    part = tmp_path / "weights" / f"{PUBLISHED['resnet18'].file}.part"
    assert part.stat().st_size == 65_536
    fetched(publisher)
    assert publisher.asked[-1][1] == "bytes=65536-"
    assert [path.name for path in (tmp_path / "weights").iterdir()] == [
        PUBLISHED["resnet18"].stored
    ]


def test_a_whole_part_is_only_checked(publisher, tmp_path):
    part = tmp_path / "weights" / f"{PUBLISHED['resnet18'].file}.part"
    part.parent.mkdir()
    part.write_bytes(publisher.content)
    fetched(publisher)
    assert not part.exists()


def test_another_file_than_the_published_one_is_removed_and_named(publisher, tmp_path):
    publisher.content = publisher.content[:-1] + b"x"
    with pytest.raises(UserError, match=r"begins with \w{8} and not with .* it was removed"):
        fetched(publisher)
    assert list((tmp_path / "weights").iterdir()) == []


def test_a_file_that_is_there_already_needs_no_server(publisher, tmp_path, capsys):
    own = tmp_path / "own.pth"
    own.write_bytes(publisher.content)
    fetched(publisher, file=str(own))
    assert publisher.asked == []
    assert own.exists()
    own.write_bytes(b"other")
    (tmp_path / "weights" / PUBLISHED["resnet18"].stored).unlink()
    with pytest.raises(UserError, match=r"so it is not the published file$"):
        fetched(publisher, file=str(own))
    assert own.exists()


def test_a_server_that_is_not_there_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fetch, "_RETRY", fetch.Retry(total=0))
    with pytest.raises(UserError, match=r"cannot be fetched .*give it as --file"):
        fetch.run(WeightsOptions("resnet18", address="http://127.0.0.1:9/models"))


def test_without_a_name_the_table_is_printed_and_nothing_is_asked(publisher, tmp_path, capsys):
    assert main(["weights", "--address", publisher.address]) == 0
    said = capsys.readouterr().out
    assert all(f"{publisher.address}{row.file}" in said for row in PUBLISHED.values())
    assert publisher.asked == []
    assert not (tmp_path / "weights").exists()
    with pytest.raises(ConfigError, match="'resnet19' has no published weights; known: resnet18"):
        fetch.run(WeightsOptions("resnet19"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_name_of_a_file_carries_its_digits_and_its_network(name):
    row = PUBLISHED[name]
    assert re.fullmatch(rf"{name}-[0-9a-f]{{8}}\.pth", row.file)
    assert row.depth == int(name.removeprefix("resnet"))
    assert ADDRESS.startswith("https://")
