"""Files that the image contains, files that it must not contain, and its size."""

import json
import re
import stat

import pytest

from common.containers import Mount
from environments.build import BUDGET, ROOT, Order, build, record
from jobs.spec.build_context import build_context
from tests.images.image import SITE

pytestmark = pytest.mark.images

BUILDERS = {"gcc", "g++", "cc", "c++", "ld", "as", "make", "cmake", "pip", "pip3"}
CHECK = "/opt/trainer/check.py"


@pytest.fixture(scope="module")
def root(image):
    """The image's files."""
    with image.builder.root(image.name) as folder:
        yield folder


def test_nothing_that_builds_has_stayed(root):
    folders = [root / name for name in ("usr/bin", "usr/local/bin", "usr/sbin", "opt/trainer/bin")]
    there = {path.name for folder in folders for path in folder.iterdir()}
    assert {"mpirun", "sshd", "python3.11", "python"} <= there
    assert there & BUILDERS == set()
    assert {
        name for name in there if re.fullmatch(r"(x86_64-linux-gnu-)?g(cc|\+\+)-\d+", name)
    } == set()


def test_nothing_of_the_builder_has_stayed(image, root):
    usual = {".bashrc", ".profile"}
    assert {path.name for path in (root / "root").rglob("*") if path.is_file()} <= usual
    for name in ("etc/pip.conf", "root/.config/pip/pip.conf", "build/requirements.txt"):
        assert not (root / name).exists(), name
    for name in ("etc/resolv.conf", "etc/hostname"):
        assert not (root / name).exists() or not (root / name).read_text().strip(), name
    assert not list((root / "var/lib/apt/lists").glob("*_*"))
    own = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    done = image.run("python", "-c", "import json, os; print(json.dumps(dict(os.environ)))")
    variables = json.loads(done.stdout)
    assert not [name for name in variables if re.search("PIP|INDEX|PROXY|CERT", name.upper())]
    assert own < variables.keys()


def test_the_authorities_are_those_of_debian(root):
    """The image must not contain the build machine's CA, such as that of a TLS-inspecting proxy."""
    bundle = (root / "etc/ssl/certs/ca-certificates.crt").read_text()
    folder = root / "usr/share/ca-certificates"
    listed = (root / "etc/ca-certificates.conf").read_text().splitlines()
    names = [line for line in listed if line and line[0] not in "#!"]
    expected = "".join((folder / name).read_text() for name in names)
    blocks = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
    assert set(blocks.findall(bundle)) == set(blocks.findall(expected))


def test_ssh_has_keys_and_a_server_that_starts(image, root):
    keys = sorted((root / "etc/ssh").glob("ssh_host_*_key"))
    assert keys
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    done = image.run("/usr/sbin/sshd", "-t")
    assert done.returncode == 0, done.stderr


def test_horovod_has_mpi_and_gloo(image):
    done = image.run("python", CHECK, "gloo", "mpi")
    assert done.returncode == 0, done.stderr
    assert "Horovod has gloo, mpi" in done.stdout


def test_an_image_without_nccl_is_refused_where_nccl_is_wanted(image):
    done = image.run("python", CHECK, "mpi", "nccl")
    assert done.returncode == 1
    assert "error: Horovod was built without nccl;" in done.stderr


def test_a_horovod_that_does_not_fit_is_refused(image, root):
    (library,) = (root / SITE.lstrip("/") / "horovod" / "tensorflow").glob("mpi_lib*.so")
    other = image.folder / library.name
    # As if TensorFlow had other names for what Horovod was compiled against.
    other.write_bytes(library.read_bytes().replace(b"N10tensorflow", b"N10tensorflaw"))
    mount = Mount(other, f"{SITE}/horovod/tensorflow/{library.name}")
    done = image.run("python", CHECK, "gloo", "mpi", mounts=[mount])
    assert done.returncode == 1
    assert "error: Horovod cannot be imported:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_of_images_becomes_a_data_set(image):
    steps = [
        "python /inside/draw.py photos",
        "python -m trainer prepare folder --input photos --output photos-data",
        "python -m trainer verify photos-data --deep",
    ]
    done = image.run("sh", "-ec", "\n".join(steps))
    assert done.returncode == 0, done.stderr
    manifest = json.loads((image.folder / "photos-data" / "manifest.json").read_text())
    assert sorted(manifest["classes"]) == ["blues", "reds"]


def test_the_image_keeps_to_its_size(image, measured):
    size = image.builder.size(image.name)
    measured["size"] = f"{size / 1e9:.2f} GB of at most {BUDGET['cpu'] / 1e9:.2f}"
    assert size <= BUDGET["cpu"]


def test_what_is_built_already_is_not_built_again(image, measured, tmp_path):
    file = record(Order("cpu"))
    told = json.loads(file.read_text()) if file.is_file() else {}
    if told.get("version") != build_context(ROOT, "cpu").version or told.get("arguments"):
        pytest.skip(
            "the image was built from other files or with arguments; run `make -C tools images`"
        )
    cold = told["cold_seconds"]
    order = Order("cpu", base=told["base"], tag="again", folder=tmp_path)
    try:
        again = build(image.builder, order, str)
    finally:
        image.builder.remove(order.name)
    measured["cold build"] = "unknown for this version" if cold is None else f"{cold:.0f} s"
    measured["warm build"] = f"{again.seconds:.1f} s"
    assert again.bytes == told["bytes"]
    assert again.cached_steps > again.steps / 2
    assert cold is None or again.seconds < cold / 2
