"""The scoring script in Azure Machine Learning's server, as a client meets it."""

import base64
import io
import json
import signal
import socket
import struct
import subprocess
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest
from PIL import Image

from tests.serving.client import HOST, Load, ask, instances, multipart
from tests.serving.conftest import MOST_IMAGES, READY_SECONDS
from tests.trainer.support.browser import CHROMIUM, SCHEMES, look, needs_chromium

pytestmark = pytest.mark.slow


def picture(kind, size=(20, 10), colour=(200, 30, 90)):
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, format=kind)
    return buffer.getvalue()


def classes(found):
    return [(entry["class_id"], entry["class_name"]) for entry in found]


def probabilities(found):
    return [entry["probability"] for entry in found]


def test_it_is_ready_only_when_a_worker_has_loaded_the_model_and_used_it(server):
    assert server.waited > 0
    assert server.first.status == 200
    assert "ready: digits, version " in server.ready_log


def test_all_held_out_digits_have_the_classes_of_predict_in_every_form(server, digits, predicted):
    images = digits.images
    # At once, so that requests share calls of the model.
    with ThreadPoolExecutor(32) as clients:
        answers = clients.map(lambda image: ask(server.port, image).data, images.values())
        single = {name: found["classes"] for name, found in zip(images, answers, strict=True)}
    together = ask(server.port, *multipart(images)).data["images"]
    rows = ask(server.port, instances(list(images.values())), "application/json").data
    assert [entry["image"] for entry in together] == list(images)
    assert len(predicted) == len(images) == 360
    for name, entry, row in zip(images, together, rows["predictions"], strict=True):
        wanted = predicted[name]
        assert classes(single[name]) == classes(entry["classes"]) == classes(wanted)
        assert list(zip(row["class_ids"], row["class_names"], strict=True)) == classes(wanted)
        for found in (probabilities(single[name]), probabilities(entry["classes"])):
            assert found == pytest.approx(probabilities(wanted), abs=1e-5)
        assert row["probabilities"] == pytest.approx(probabilities(wanted), abs=1e-5)


def test_the_column_form_and_named_inputs_are_answered_as_tensorflow_serving_does(server, digits):
    images = [{"b64": base64.b64encode(i).decode()} for i in list(digits.images.values())[:3]]
    bodies = [
        {"inputs": {"images": images}},
        {"inputs": images},
        {"instances": [{"images": image} for image in images]},
    ]
    columns, short, rows = (
        ask(server.port, json.dumps(body).encode(), "application/json").data for body in bodies
    )
    assert columns == short
    assert columns["outputs"].keys() == {"class_ids", "class_names", "probabilities"}
    for key, values in columns["outputs"].items():
        assert values == [row[key] for row in rows["predictions"]]


def test_its_document_describes_what_it_answers(server, digits):
    document = ask(server.port, None, method="GET", path="/openapi.json")
    assert (document.status, document.data["openapi"]) == (200, "3.1.0")
    answered = document.data["paths"]["/score"]["post"]["responses"]["200"]
    schema = answered["content"]["application/json"]["schema"]
    check = jsonschema.Draft202012Validator({**schema, "components": document.data["components"]})
    image = next(iter(digits.images.values()))
    columns = json.dumps({"inputs": [{"b64": base64.b64encode(image).decode()}]}).encode()
    for body, kind in ((image, None), multipart({"a": image}), (instances([image]), JSON),
                       (columns, JSON)):  # fmt: skip
        check.validate(ask(server.port, body, kind).data)
    assert not check.is_valid({"classes": [{"class_id": "x"}]})


def test_answered_probes_are_not_logged_and_everything_else_is(server):
    # Lines of earlier tests may still come.
    for path in ("/?mark", "/score?mark"):
        assert ask(server.port, None, method="GET", path=path).status == 200
    assert ask(server.port, None, method="GET", path="/nothing?mark").status == 404
    assert ask(server.port, b"", path="/score?mark").status == 400
    assert ask(server.port, picture("PNG"), path="/score?mark").status == 200

    def logged():
        lines = [line for line in server.log.read_text().splitlines() if "?mark HTTP/1.1" in line]
        return sorted(line.partition('"')[2].split("?mark")[0] for line in lines)

    end = time.monotonic() + 10
    while len(logged()) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    assert logged() == ["GET /nothing", "POST /score", "POST /score"]


def test_an_answer_names_model_and_version(server, digits, run):
    facts = json.loads((run / "export" / "export.json").read_text())
    answer = ask(server.port, next(iter(digits.images.values())), "image/png")
    assert answer.headers["X-Model-Name"] == facts["run"] == "digits"
    assert answer.headers["X-Model-Version"] == str(facts["step"])


def test_formats_may_be_mixed_and_the_type_of_a_body_does_not_matter(server):
    files = {"a.png": picture("PNG"), "b.jpg": picture("JPEG"), "c.gif": picture("GIF")}
    assert len(ask(server.port, *multipart(files)).data["images"]) == 3
    for kind in ("image/jpeg", "application/octet-stream", None):
        assert ask(server.port, files["a.png"], kind).status == 200


def test_a_photograph_lying_on_its_side_is_turned_upright(server, digits):
    for upright in list(digits.images.values())[:20:4]:
        lying, tag = (
            Image.open(io.BytesIO(upright)).transpose(Image.Transpose.ROTATE_90),
            Image.Exif(),
        )
        tag[274] = 6
        buffer = io.BytesIO()
        lying.save(buffer, "PNG", exif=tag)
        found, wanted = (
            ask(server.port, one).data["classes"] for one in (buffer.getvalue(), upright)
        )
        # Turned images are encoded again.
        assert probabilities(found) == pytest.approx(probabilities(wanted), abs=0.1)
        assert classes(found)[0] == classes(wanted)[0]


def huge_png():
    """The header of a PNG of 200 x 200 pixels, in a complete small file."""
    return picture("PNG", (200, 200))


def lying_png():
    """A PNG whose header is whole, and whose pixels are not."""
    image = bytearray(picture("PNG"))
    start = image.index(b"IDAT") + 4
    image[start : start + 12] = bytes(12)
    length = struct.unpack(">I", image[start - 8 : start - 4])[0]
    crc = zlib.crc32(image[start - 4 : start + length])
    image[start + length : start + length + 4] = struct.pack(">I", crc)
    return bytes(image)


JSON = "application/json"
BAD = {
    "empty": (b"", None, 400, "is empty"),
    "text": (b"years of work", "text/plain", 415, "is not an image of a known kind"),
    "an iPhone's image": (
        b"\0\0\0\x18ftypheic" + bytes(40),
        "image/heic",
        415,
        "is in HEIC, which is not",
    ),
    "half a PNG": (picture("PNG")[:50], "image/png", 422, "cannot be decoded"),
    "half a JPEG": (picture("JPEG", (90, 90))[:400], "image/jpeg", 422, "damaged"),
    "only a beginning": (picture("PNG")[:10], "image/png", 422, "damaged"),
    "damaged pixels": (lying_png(), "image/png", 422, "damaged"),
    "too many pixels": (huge_png(), "image/png", 413, "200 x 200 pixels"),
    "too many pixels together": (
        *multipart({f"{n}": picture("PNG", (100, 100)) for n in range(5)}),
        413,
        "50,000 pixels, more than 40,000",
    ),
    "too large": (bytes(2_000_001), None, 413, "more than 2 MB"),
    "too large form": (*multipart({"a": bytes(2_000_001)}), 413, "more than 2 MB"),
    "too many": (*multipart({f"{n}": b"" for n in range(MOST_IMAGES + 1)}), 413, "401 images"),
    "too many in JSON": (instances([b"x"] * (MOST_IMAGES + 1)), JSON, 413, "401 images"),
    "none": (instances([]), JSON, 400, "0 images"),
    "form without files": (*multipart({}), 400, "0 images"),
    "form that is none": (b"abc", "multipart/form-data; boundary=x", 400, "0 images"),
    "form without boundary": (b"abc", "multipart/form-data", 400, "0 images"),
    "one of two": (
        *multipart({"a.png": picture("PNG"), "b.png": lying_png()}),
        422,
        "b.png: cannot",
    ),
    "one of two is text": (*multipart({"a.png": picture("PNG"), "b": b"x"}), 415, "b: is not an"),
    "no JSON": (b"{", JSON, 400, "not JSON of the form"),
    "no object": (b"[1]", JSON, 400, "not JSON of the form"),
    "null": (b"null", JSON, 400, "not JSON of the form"),
    "other JSON": (b'{"images": []}', JSON, 400, "not JSON of the form"),
    "no base64": (b'{"instances": [{"b64": "*"}]}', JSON, 400, "not JSON of the form"),
    "no text": (b'{"instances": [{"b64": 1}]}', JSON, 400, "not JSON of the form"),
    "deep JSON": (b"[" * 100_000, JSON, 400, "not JSON of the form"),
    "no UTF-8": (b'{"instances": "\xff"}', JSON, 400, "not JSON of the form"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_refused_with_a_sentence_and_the_workers_live(server, digits, name):
    body, kind, status, sentence = BAD[name]
    workers = {child.pid for child in server.master.children()}
    answer = ask(server.port, body, kind)
    assert (answer.status, sentence in answer.data["error"]) == (status, True), answer
    assert ask(server.port, next(iter(digits.images.values()))).status == 200
    assert {child.pid for child in server.master.children()} == workers


def test_a_large_body_without_a_length_is_refused(server):
    answer = ask(server.port, iter([bytes(100_000)] * 21), "image/png")
    assert (answer.status, "more than 2 MB" in answer.data["error"]) == (413, True)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("PUT", "/score", 405), ("DELETE", "/score", 405), ("POST", "/", 405), ("GET", "/x", 404)],
)
def test_other_methods_and_paths_are_refused(server, method, path, status):
    answer = ask(server.port, b"", method=method, path=path)
    assert answer.status == status
    if status == 405:
        assert "GET" in answer.headers["Allow"]


def test_clients_that_stop_in_the_middle_keep_nobody_waiting(server, digits):
    silent = [socket.create_connection((HOST, server.port)) for _ in range(4)]
    begun = [socket.create_connection((HOST, server.port)) for _ in range(2)]
    for connection in begun:
        connection.sendall(b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nabc")
    image = next(iter(digits.images.values()))
    assert ask(server.port, None, method="GET", path="/").status == 200
    assert ask(server.port, image).status == 200
    for connection in begun:
        connection.settimeout(60)
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    for connection in (*silent, *begun):
        connection.close()
    assert ask(server.port, image).status == 200


def test_a_worker_that_is_told_to_end_answers_what_it_has_accepted(server, digits, predicted):
    right = {name: found[0]["class_name"] for name, found in predicted.items()}
    oldest, end = server.master.children()[0], time.monotonic() + READY_SECONDS
    ready = server.log.read_text().count("ready: ")
    server.master.send_signal(signal.SIGTTIN)
    while server.log.read_text().count("ready: ") == ready:
        assert time.monotonic() < end
        time.sleep(0.1)
    with Load(server.port, digits.images, right, 16) as load:
        while load.answered < 100:
            assert time.monotonic() < end
            time.sleep(0.01)
        server.master.send_signal(signal.SIGTTOU)
        oldest.wait(60)
    assert (load.wrong, load.failed) == ([], [])
    assert len(server.master.children()) == 2


@pytest.mark.parametrize(
    ("seconds", "kills"), [(5, 1), pytest.param(60, 3, marks=pytest.mark.long)]
)
def test_a_killed_worker_costs_only_the_requests_that_it_had(
    server, digits, predicted, seconds, kills
):
    right = {name: found[0]["class_name"] for name, found in predicted.items()}
    clients, killed = 4, []
    with Load(server.port, digits.images, right, clients) as load:
        for _ in range(kills):
            time.sleep(seconds / (kills + 1))
            victim = server.master.children()[0]
            victim.kill()
            killed.append(time.monotonic())
        time.sleep(seconds / (kills + 1))
    assert load.wrong == []
    assert load.answered > 10 * seconds / (1 + kills)
    assert len(load.failed) <= clients * kills
    assert all(any(0 <= when - at < 3 for at in killed) for when in load.failed)
    assert len(server.master.children()) == 2


@needs_chromium
@SCHEMES
def test_the_page_fits_wide_and_narrow_screens_and_loads_nothing_else(
    server, tmp_path, flags, background, colour
):
    page = tmp_path / "page.html"
    page.write_bytes(ask(server.port, None, method="GET").body)
    seen, console = look(tmp_path, {"wide": (page, 1280), "narrow": (page, 390)}, *flags)
    assert console == []
    for width, entry in zip((1280, 390), seen.values(), strict=True):
        assert entry["background"] == background
        assert entry["width"] == entry["needs"] == width
        assert entry["loaded"] == []


@needs_chromium
def test_the_page_shows_the_five_most_probable_classes(server, digits, predicted, tmp_path):
    name, image = next(iter(digits.images.items()))
    page = ask(server.port, None, method="GET").body.decode()
    drop = f"""<script>
      const text = atob("{base64.b64encode(image).decode()}");
      const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
      const files = new DataTransfer();
      files.items.add(new File([bytes], "{name}", {{ type: "image/png" }}));
      dispatchEvent(new DragEvent("drop", {{ dataTransfer: files }}));
    </script></body>"""
    address = f"'http://{HOST}:{server.port}/score'"
    driven = tmp_path / "page.html"
    driven.write_text(page.replace("location.pathname", address).replace("</body>", drop))
    command = [
        *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        # The page is a file here, and so of another origin.
        *("--disable-web-security", f"--user-data-dir={tmp_path / 'profile'}"),
        *("--virtual-time-budget=15000", "--dump-dom", driven.as_uri()),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "<h1>Model digits, version " in shown
    lines = [
        f"<span>{entry['class_name']}</span><span>{100 * entry['probability']:.2f} %</span>"
        for entry in predicted[name]
    ]
    places = [shown.index(line) for line in lines]
    assert len(places) == 5
    assert places == sorted(places)
