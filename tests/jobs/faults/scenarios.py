"""The commands of the fault matrix, and the conditions that must hold afterwards."""

import io
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from common.program import REPORTED, report
from jobs import cli
from jobs.azure import storage
from jobs.commands import teardown
from jobs.commands.teardown import TeardownOptions
from jobs.extras.serving import deploy
from jobs.pulumi.state import StackResource
from jobs.spec import from_options
from jobs.transfer import blob_upload
from rehearsal.control_plane.http_messages import Request
from tests import ROOT
from tests.jobs.faults import leaf_scenarios
from tests.jobs.faults.network import Network
from tests.jobs.faults.simulated import LINES, InProcess
from tests.jobs.faults.trial import Trial
from tests.jobs.support.folders import write_shards
from tests.jobs.support.live import Live, declare
from tests.jobs.support.platform import platform
from tests.jobs.support.serving import register_version
from tests.jobs.support.tiny import begin

RETRY: Final = ["--retry-timeout-minutes", "10"]
SUPERVISE: Final = ["--supervise", "--resubmit.backoff-seconds", "10"]
POLL: Final = ["--poll-seconds", "10"]
DEPLOY: Final = ["--endpoint", "x", *POLL]
_BLOCK: Final = 16 << 10
_IMAGE: Final = "environments/trainer-cpu"


@dataclass
class Scenarios:
    """The commands whose requests meet faults."""

    live: Live
    folder: Path
    _numbers: int = field(default=0, init=False)
    _options: dict[str, Any] = field(default_factory=dict, init=False)
    """Options of the commands, by their arguments."""

    @property
    def all(self) -> Mapping[str, Callable[[], Trial]]:
        """Functions that prepare a command, by its name in the table."""
        return {
            "follow": self.follow,
            "follow --supervise": self.supervise,
            "submit": self.submit,
            "score-batch": self.score_batch,
            "upload": self.upload,
            "download": self.download,
            "cancel": self.cancel,
            "deploy": self.deploy,
            "teardown": self.teardown,
            **{name: partial(of, self) for name, of in leaf_scenarios.ALL.items()},
        }

    @property
    def azure(self) -> InProcess:
        assert isinstance(self.live.azure, InProcess)
        return self.live.azure

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Use a repository with little code, and blocks so small that a shard has several."""
        small = self.folder / "repository"
        for package in ("common", "trainer"):
            (small / package).mkdir(parents=True)
            (small / package / "__init__.py").touch()
        for name in ("environments", "locks", "serving"):
            shutil.copytree(ROOT / name, small / name)
        treatment = "trainer/data/pixels/treatment.py"
        (small / treatment).parent.mkdir(parents=True)
        shutil.copy(ROOT / treatment, small / treatment)
        self._source = write_shards(self.folder / "shards", count=1, size=3 * _BLOCK)
        (self._source / "classes.txt").write_text("cat dog")
        with ExitStack() as stack:
            cli.quieten()
            stack.enter_context(patch.object(from_options, "REPOSITORY", small))
            stack.enter_context(patch.object(deploy, "REPOSITORY", small))
            stack.enter_context(patch.object(blob_upload, "BLOCK", _BLOCK))
            # With random pauses, a fault that lasts for a time would end before another request.
            calm = {**storage.BACKOFF, "random_jitter_range": 0}
            stack.enter_context(patch.object(storage, "BACKOFF", calm))
            # One after the other, so that each run is the same.
            one = partial(ThreadPoolExecutor, 1)
            stack.enter_context(patch.object(storage, "ThreadPoolExecutor", lambda _: one()))
            yield

    def follow(self) -> Trial:
        """Follow a training to its end."""
        key = self.key("follow")
        begin(self.live, key, "train")
        return Trial(
            self._follow(key),
            lambda: None,
            lambda: self._attempts(key, 1),
            output=LINES,
        )

    def supervise(self) -> Trial:
        """Follow a run whose first attempt is pre-empted."""
        key = self.key("supervise")
        self.azure.pre_empted = lambda job: job == f"{key}-r1"
        begin(self.live, key, "train", cluster=self.live.outputs.clusters["gpu"])
        return Trial(
            self.command("follow", "x", *SUPERVISE, *POLL, *RETRY, name=key),
            lambda: None if self._status(f"{key}-r2") == "Completed" else "not submitted again",
            lambda: self._attempts(key, 2),
            output=LINES,
        )

    def submit(self) -> Trial:
        """Submit a training whose image and code are not registered."""
        key = self.key("submit")
        workspace, resources = self.live.workspace, self.azure.resources
        for kind in ("environments", "codes"):
            for document in resources.below(workspace, f"/{kind}/"):
                resources.discard(document["id"])
        contexts = self.azure.blobs.container(self.azure.account, "results")
        for name in contexts.list_blob_names(name_starts_with=_IMAGE):
            if name.endswith("/Dockerfile"):
                contexts.delete_blob(name)

        run = self.command("submit", "--kind", "smoke", "--no-follow", *RETRY, name=key)
        follow = self._follow(key)

        def again() -> int:
            return follow() if self.job(f"{key}-r1") else run()

        def problem() -> str | None:
            return None if self.job(f"{key}-r1") else "no job"

        return Trial(run, problem, lambda: self._attempts(key, 1), again)

    def score_batch(self) -> Trial:
        """Score a folder in batch with a registered model; the image and code are registered."""
        key = self.key("score")
        model = register_version(
            self.live, "scored", "1", self.live.outputs.datastores.results.name
        )
        where = ("--input", "raw/photos", "--output", "scores/photos")
        run = self.command("score-batch", model, *where, "--no-follow", *RETRY, name=key)
        follow = self._follow(key)

        def again() -> int:
            return follow() if self.job(f"{key}-r1") else run()

        def problem() -> str | None:
            return None if self.job(f"{key}-r1") else "no job"

        return Trial(run, problem, lambda: self._attempts(key, 1), again)

    def upload(self) -> Trial:
        """Upload a data set with a manifest, and register it."""
        name = self.key("upload")
        store = self.live.outputs.datastores.prepared
        container = self.azure.blobs.container(store.account, store.container)
        expected = {path.name: path.read_bytes() for path in self._source.iterdir()}

        def there() -> dict[str, bytes]:
            names = list(container.list_blob_names(name_starts_with=f"{name}/"))
            return {one.rpartition("/")[2]: container.download_blob(one).readall() for one in names}

        def problem() -> str | None:
            if there() != expected:
                return "the data set is incomplete"
            below = self.azure.resources.below(f"{self.live.workspace}/data/{name}")
            return None if below else "not registered"

        def damage() -> str | None:
            found = there()
            broken = any(expected[one] != content for one, content in found.items())
            early = "manifest.json" in found and found != expected
            return "a manifest without its files" if broken or early else None

        args = [str(self._source), "--to", "prepared/x", "--threads", "1", *RETRY]
        return Trial(self.command("upload", *args, to=f"prepared/{name}"), problem, damage)

    def download(self) -> Trial:
        """Download the results of a run of one attempt."""
        key = self.key("download")
        results = self.azure.blobs.container(self.azure.account, "results")
        artifacts = self.azure.blobs.container(self.azure.account, "azureml")
        begin(self.live, key, "train")
        self.azure.clock.clear()
        files = {"result.json": b'{"steps": 1}', "metrics.jsonl": b"one\ntwo\n"}
        for name, content in files.items():
            results.upload_blob(f"runs/{key}/{key}/{name}", content)
        artifacts.upload_blob(f"ExperimentRun/dcid.{key}-r1/outputs/check.json", b"{}")
        expected = {**files, f"jobs/{key}-r1/outputs/check.json": b"{}"}
        target = self.folder / "runs" / key

        def there() -> dict[str, bytes]:
            return {
                path.relative_to(target).as_posix(): path.read_bytes()
                for path in target.rglob("*")
                if path.is_file() and not path.name.startswith(".")
            }

        def damage() -> str | None:
            broken = any(expected.get(name) != content for name, content in there().items())
            return "a damaged file" if broken else None

        args = ["x", "--threads", "1", *RETRY]
        return Trial(
            self.command("download", *args, name=key, to=str(target)),
            lambda: None if there() == expected else "files are missing",
            damage,
        )

    def cancel(self) -> Trial:
        """Cancel a run."""
        key = self.key("cancel")
        job = begin(self.live, key, "train")
        self.azure.runs.change(job, status="Running")
        self.azure.clock.clear()

        def problem() -> str | None:
            tags = (self.job(f"{key}-r1") or {}).get("tags") or {}
            if "canceled_by" not in tags:
                return "not marked"
            return None if self._status(f"{key}-r1") == "Canceled" else "not cancelled"

        return Trial(self.command("cancel", "x", name=key), problem, lambda: self._attempts(key, 1))

    def deploy(self) -> Trial:
        """Deploy a second version of a model, which gets a part of the requests."""
        key = self.key("deploy")
        kinds, endpoint = "onlineEndpoints", f"{self.live.workspace}/onlineEndpoints/{key}"
        for kind in ("environments", kinds):
            for document in self.azure.resources.below(self.live.workspace, f"/{kind}/"):
                self.azure.resources.discard(document["id"])
        store = self.live.outputs.datastores.results.name
        for version in ("1", "2"):
            register_version(self.live, key, version, store)
        first = self.command("deploy", "x:1", *DEPLOY, model=f"{key}:1", endpoint=key)
        said = io.StringIO()
        with (
            self.azure.clock.patched(),
            Network(self.azure, self.azure.clock).patched(),
            redirect_stdout(said),
            redirect_stderr(said),
        ):
            assert first() == 0, said.getvalue()
        more: dict[str, Any] = {"model": f"{key}:2", "endpoint": key, "to": "green", "traffic": 10}

        def traffic() -> Any:
            return (self.azure.resources.get(endpoint) or {"properties": {}})["properties"].get(
                "traffic"
            )

        return Trial(
            self.command("deploy", "x:2", *DEPLOY, **more),
            lambda: None if traffic() == {"blue": 90, "green": 10} else f"traffic {traffic()}",
            lambda: None if (traffic() or {}).get("blue", 0) >= 90 else "blue lost its requests",
        )

    def teardown(self) -> Trial:
        """Delete a platform."""
        tag = self.key("t")
        base = platform(max_nodes=2)
        described = replace(
            base,
            resource_group=f"{tag}-rg",
            workspace=f"{tag}-ml",
            vault_uri=f"https://{tag}-kv.vault.azure.net/",
            datastores=replace(
                base.datastores,
                **{
                    role: replace(getattr(base.datastores, role), account=f"teardown{account}")
                    for role, account in (("raw", "data"), ("prepared", "data"), ("results", "def"))
                },
            ),
        )
        place = self.folder / tag
        place.mkdir()
        stack = declare(self.azure, place, described)
        begin(stack, "left", "train")
        pulumi = _Pulumi(self.azure, stack)

        def run() -> int:
            with patch.object(teardown, "Pulumi", lambda *_: pulumi):
                try:
                    options = TeardownOptions(yes=True)
                    return teardown.run(options, stack.outputs, as_json=False, repository=place)
                except REPORTED as error:
                    return report(error)

        def problem() -> str | None:
            return "something is left" if self.azure.resources.get(stack.group) else None

        told = re.compile("is not purged: |may be there and keep its name").search
        return Trial(run, problem, told=lambda said: bool(told(said)))

    def _follow(self, key: str) -> Callable[[], int]:
        return self.command("follow", "x", *POLL, *RETRY, name=key)

    def command(
        self, called: str, /, *args: str, words: tuple[str, ...] = (), **changes: Any
    ) -> Callable[[], int]:
        """Return a function that runs a command; its arguments are parsed only once.

        Args:
            called: Name of the command.
            args: Its arguments.
            words: Options of the trainer.
            changes: Fields of its options that differ between trials.
        """
        kind = " ".join((called, *args))
        known = self._options.get(kind) or cli.read_options(called, args)
        self._options[kind] = known
        options, command = replace(known, **changes), cli.COMMANDS[called]
        program: dict[str, Any] = {"program": words} if command.program else {}

        def run() -> int:
            try:
                return int(command.load_run()(options, self.live.outputs, as_json=False, **program))
            except REPORTED as error:
                return report(error)

        return run

    def key(self, name: str) -> str:
        """Return a key that no run has."""
        self._numbers += 1
        return f"{name}{self._numbers}"

    def job(self, name: str) -> dict[str, Any] | None:
        """Return the properties of a job, if it exists."""
        document = self.azure.resources.get(f"{self.live.workspace}/jobs/{name}")
        return None if document is None else document["properties"]

    def _status(self, name: str) -> str:
        return str(self.azure.runs.get(f"{self.live.workspace}/jobs/{name}")["status"])

    def _attempts(self, key: str, most: int) -> str | None:
        return "a second job" if self.job(f"{key}-r{most + 1}") else None


class _Pulumi:
    """Stands for Pulumi's command line, which deletes the resources that its state names."""

    stack = "dev"

    def __init__(self, azure: InProcess, live: Live) -> None:
        self._azure = azure
        vault = live.outputs.vault_uri.removeprefix("https://").partition(".")[0]
        stores = live.outputs.datastores
        providers = f"{live.group}/providers"
        self._ids = [
            live.group,
            f"{providers}/Microsoft.KeyVault/vaults/{vault}",
            f"{providers}/Microsoft.Storage/storageAccounts/{stores.prepared.account}",
            f"{providers}/Microsoft.Storage/storageAccounts/{stores.results.account}",
        ]

    def resources(self) -> Sequence[StackResource]:
        kind = "azure-native:resources:ResourceGroup"
        return [
            StackResource(
                urn=f"urn:pulumi:dev::ml::{kind}::{one}", kind=kind if one == self._ids[0] else "x",
                id=one, protected=False,
            )
            for one in self._ids
        ]  # fmt: skip

    def destroy(self) -> None:
        while self._ids:
            self._azure.resources.respond(Request("DELETE", self._ids[-1]))
            self._ids.pop()
