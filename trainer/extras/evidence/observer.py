"""Writes the statements of a run while it runs: rank 0, on a thread of its own."""

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.files import parse_json
from trainer.checkpoints.format import DONE, META, STATE
from trainer.checkpoints.names import Key, checkpoint_name, highest_attempt, key_of
from trainer.data.data_set import manifest_folder
from trainer.export.layout import FACTS, FOLDER
from trainer.extras.evidence import materials
from trainer.extras.evidence.leaf import EvidenceOptions
from trainer.extras.evidence.statements import (
    CHECKPOINTS,
    Chain,
    Statement,
    digest_file,
    export_digests,
    result_digests,
)
from trainer.leaves import score_in
from trainer.loggers.metrics_file import MetricsFile
from trainer.loggers.observer import Observed, Observer
from trainer.run_folder import RunFolder

if TYPE_CHECKING:
    from trainer.checkpoints.writer import Saved


def evidence_observer(observed: Observed) -> Observer:
    """Return what writes the statements of a run on rank 0; elsewhere, or if they are not wanted,
    what does nothing.

    Raises:
        ConfigError: The key cannot be used.
    """
    options = observed.config.of(EvidenceOptions)
    if observed.communicator.rank or not options.chain:
        return Observer()
    return EvidenceObserver(observed.folder, options)


class EvidenceObserver(Observer):
    """Writes the statements of one attempt.

    A thread reads and hashes the files, in the order in which they came to be. A failure ends the
    statements, not the run.
    """

    def __init__(self, run: Path, options: EvidenceOptions) -> None:
        self._run = run
        self._chain = Chain(run, _signer(options))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="evidence")
        # While the network is built and traced, so that no checkpoint has to wait.
        self._materials = self._thread.submit(_materials)
        self._begun = self._failed = False
        self._start: Statement | None = None
        self._last: dict[str, str] | None = None
        self._missed: list[str] = []

    def begin(self, parameters: Mapping[str, object], tags: Mapping[str, object]) -> None:
        """See `Observer`: state the materials of the attempt."""
        del parameters, tags
        self._begun = True
        lines = MetricsFile(self._run / "metrics.jsonl").lines()
        started = next(line for line in reversed(lines) if line["event"] == "start")
        # Before this attempt saves and deletes any.
        names = _complete(self._run)
        every = highest_attempt(path.name for path in (self._run / CHECKPOINTS).glob("*-*"))
        self._do(self._state_start, started, names, max(every, 1))

    def saved(self, checkpoint: "Saved") -> None:
        """See `Observer`: state a checkpoint."""
        self._do(self._state_checkpoint, checkpoint.path.name, self._start)

    def end(self, status: int, *, failed: bool) -> None:
        """See `Observer`: state result and export of a complete run, unless they are stated."""
        if status == 0 and not failed:
            if not self._begun:
                # The attempt before was killed between the files and the statements about them.
                self._do(self._state_found, _complete(self._run))
            self._do(self._state_result)
            self._do(_state_export, self._chain, self._run)
        self._thread.shutdown()

    def _do(self, act: Callable[..., None], *args: Any) -> None:
        """Call a function on the thread, after all those before."""

        def attempt() -> None:
            if self._failed:
                return
            try:
                act(*args)
            except Exception as error:  # noqa: BLE001 the run is worth more than its statements
                self._failed = True
                print(
                    f"warning: {self._chain.folder}: no further statements about this attempt are"
                    f" written ({type(error).__name__}: {error}); the run continues",
                    file=sys.stderr,
                    flush=True,
                )

        self._thread.submit(attempt)

    def _state_start(self, started: Mapping[str, Any], names: list[str], attempt: int) -> None:
        step, resumed = int(started["step"]), None
        if step:
            keys = [key for name in names if (key := key_of(name)) and key.step == step]
            resumed = max(keys, default=None)
            self._state_found([name for name in names if resumed and _key(name) <= resumed])
        record = RunFolder(self._run).read()
        made = self._materials.result()
        data = materials.data_facts(record.config)
        subjects = {
            "config.json": digest_file(self._run / "config.json"),
            materials.CODE: made["code"]["sha256"],
            materials.PACKAGES: made["packages"]["sha256"],
        }
        weights = record.config.model.weights
        if weights is not None and Path(weights).is_file():
            subjects[materials.WEIGHTS] = digest_file(Path(weights))
        if manifest_folder(record.config) is not None:
            subjects[materials.DATA] = data["sha256"]
        if resumed is not None:
            self._last = self._stated().get(checkpoint_name(resumed))
        self._start = self._chain.append(
            "start",
            subjects,
            {
                "attempt": attempt,
                "step": step,
                "time": _now(),
                "continues": self._last,
                "configuration": parse_json((self._run / "config.json").read_text()),
                "data": data,
                **made,
                "environment": started["environment"],
                "job": materials.job_facts(),
                "signer": self._chain.signer,
            },
        )

    def _state_checkpoint(self, name: str, start: Statement | None, *, found: bool = False) -> None:
        """State a checkpoint that this attempt has written, or has found unstated."""
        if name in self._stated():
            return
        key, folder = key_of(name), self._run / CHECKPOINTS / name
        assert key is not None
        try:
            subjects = {
                f"{CHECKPOINTS}/{name}/{file}": digest_file(folder / file) for file in (STATE, META)
            }
            meta = parse_json((folder / META).read_text())
        except FileNotFoundError:
            # Deleted, because newer ones were written meanwhile.
            self._missed.append(name)
            return
        start = self._start if start is None and not found else start
        self._chain.append(
            "checkpoint",
            subjects,
            {
                "name": name,
                "attempt": key.attempt,
                "step": key.step,
                "time": _now(),
                "follows": self._last,
                "start": start.digest if start else None,
                "found": found,
                "missed": self._missed,
                "score": score_in(meta),
            },
        )
        self._last = {"name": name, "sha256": subjects[f"{CHECKPOINTS}/{name}/{STATE}"]}
        self._missed = []

    def _state_found(self, names: list[str]) -> None:
        """State checkpoints of attempts that were killed before they could."""
        for name in sorted(set(names) - self._stated().keys(), key=_key):
            key, statements = _key(name), self._chain.statements
            starts = [
                statement
                for statement in statements
                if statement.kind == "start" and statement.predicate["attempt"] == key.attempt
            ]
            before = [
                {"name": statement["name"], "sha256": statement["sha256"]}
                for statement in self._stated().values()
                if _key(statement["name"]).attempt == key.attempt
                and _key(statement["name"]).step < key.step
            ]
            start = starts[-1] if starts else None
            self._last = before[-1] if before else start.predicate["continues"] if start else None
            self._state_checkpoint(name, start, found=True)

    def _stated(self) -> dict[str, dict[str, str]]:
        """Return name and digest of each stated checkpoint, by name."""
        return {
            statement.predicate["name"]: {
                "name": statement.predicate["name"],
                "sha256": statement.state,
            }
            for statement in self._chain.statements
            if statement.kind == "checkpoint"
        }

    def _state_result(self) -> None:
        subjects = result_digests(self._run)
        if _newest(self._chain, "result") == subjects or "result.json" not in subjects:
            return
        result = parse_json((self._run / "result.json").read_text())
        stated = list(self._stated().values())
        last = self._last or (stated[-1] if stated else None)
        self._chain.append(
            "result",
            subjects,
            {"step": result["steps"], "time": _now(), "checkpoint": last, "result": result},
        )


def state_rewritten(run: Path, names: Sequence[str]) -> None:
    """State an export, and those files of the result, that a command has written anew, if the run
    has statements. Other files keep their statements.

    Raises:
        ConfigError: The key of the run cannot be used.
    """
    if not (run / "evidence").is_dir():
        return
    options = RunFolder(run).read().config.of(EvidenceOptions)
    chain = Chain(run, _signer(options))
    _state_export(chain, run)
    results = [statement for statement in chain.statements if statement.kind == "result"]
    if not results:
        return
    stated = results[-1]
    now = {name: digest_file(run / name) for name in names if (run / name).is_file()}
    if now.items() <= stated.subjects.items():
        return
    facts = {key: stated.predicate[key] for key in ("step", "checkpoint", "result")}
    chain.append("result", {**stated.subjects, **now}, {**facts, "time": _now()})


def _state_export(chain: Chain, run: Path) -> None:
    folder = run / FOLDER
    if not (folder / FACTS).is_file():
        return
    subjects = export_digests(run)
    if _newest(chain, "export") == subjects:
        return
    facts = parse_json((folder / FACTS).read_text())
    chain.append("export", subjects, {"step": facts["step"], "time": _now(), "facts": facts})


def _materials() -> dict[str, Any]:
    return {
        "code": materials.code_facts(),
        "packages": materials.package_facts(),
        "locks": materials.lock_facts(),
    }


def _newest(chain: Chain, kind: str) -> Mapping[str, str] | None:
    subjects = [statement.subjects for statement in chain.statements if statement.kind == kind]
    return subjects[-1] if subjects else None


def _complete(run: Path) -> list[str]:
    """Return the names of the checkpoints that were finished; they may be damaged."""
    folder = run / CHECKPOINTS
    return [path.parent.name for path in folder.glob(f"*/{DONE}") if key_of(path.parent.name)]


def _key(name: str) -> Key:
    key = key_of(name)
    assert key is not None
    return key


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _signer(options: EvidenceOptions) -> Any:
    # Each needs packages of an optional group.
    if options.vault_key is not None:
        from trainer.extras.evidence.vault import VaultKey  # noqa: PLC0415

        return VaultKey(options.vault_key)
    if options.key is not None:
        from trainer.extras.evidence.signing import FileKey  # noqa: PLC0415

        return FileKey(Path(options.key))
    return None
