"""Whether the files of a run agree with its statements."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import xxhash

from common.files import parse_json
from common.text import plural
from trainer.checkpoints.filesystem import CHUNK
from trainer.checkpoints.format import DONE, META, STATE
from trainer.checkpoints.names import key_of
from trainer.checkpoints.retention_policy import Entry, to_delete
from trainer.extras.evidence.chain import Verified, Verifier, check_chain
from trainer.extras.evidence.statements import (
    CHECKPOINTS,
    CODE,
    FOLDER,
    Statement,
    digest_file,
    export_digests,
)
from trainer.own_code.code import OwnCode


def verify(run: Path, key: Verifier | None = None) -> Verified:
    """Check the statements of a run, and the run folder against them.

    Args:
        run: Folder of the run.
        key: Public key that must have signed every statement; None checks no signature.
    """
    verified = Verified(run)
    check_chain(verified, key)
    if verified.statements:
        _check_configuration(verified)
        _check_code(verified)
        _check_checkpoints(verified)
        _check_result(verified)
        _check_export(verified)
        _note_uncovered(verified)
    return verified


def _check_configuration(verified: Verified) -> None:
    starts = verified.of("start")
    if not starts:
        return
    stated, path = starts[-1], verified.run / "config.json"
    try:
        if digest_file(path) == stated.subjects["config.json"]:
            return
        now = parse_json(path.read_text())
    except FileNotFoundError:
        verified.add("broken", "config.json", "is missing")
        return
    except ValueError:
        verified.add("broken", "config.json", "is truncated, or not JSON")
        return
    changes = list(differences(stated.predicate["configuration"], now))
    listed = "; ".join(changes[:5]) or "the same options in other bytes"
    verified.add("broken", "config.json", f"was changed since {stated}: {listed}")


def _check_code(verified: Verified) -> None:
    """Compare the kept code of an own network with the digests in the configurations."""
    for link, (digest, stated) in _code_of(verified).items():
        _check_file(verified, link, digest, stated, None)


def _code_of(verified: Verified) -> dict[str, tuple[str, Statement]]:
    """Return the SHA-256 of each kept file of an own network's code, by its path in the run folder,
    and the start that has stated it in its configuration.
    """
    codes = (
        (OwnCode.from_json(statement.predicate["configuration"].get("own_network")), statement)
        for statement in verified.of("start")
    )
    return {
        f"{CODE}/{code.digest}/{name}": (digest, statement)
        for code, statement in codes
        if code
        for name, digest in code.files.items()
    }


def _note_uncovered(verified: Verified) -> None:
    """Note the files that no statement is about, by the folder or file of the run."""
    covered = {name for statement in verified.statements for name in statement.subjects}
    covered |= {f"{FOLDER}/{statement.file}" for statement in verified.statements} | _code_of(
        verified
    ).keys()
    counts = Counter(
        path.relative_to(verified.run).parts[0]
        for path in verified.run.rglob("*")
        if path.is_file() and path.relative_to(verified.run).as_posix() not in covered
    )
    for name, count in sorted(counts.items()):
        verified.add("note", name, f"no statement covers {plural(count, 'file')} of it")


def differences(before: Any, now: Any, key: str = "") -> Iterator[str]:
    """Yield one text for each value of plain data that has changed, with its dotted key."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in [*before, *(name for name in now if name not in before)]:
            inner = f"{key}.{name}" if key else name
            yield from differences(before.get(name), now.get(name), inner)
    elif before != now:
        yield f"{key} was {_short(before)}, is now {_short(now)}"


def _check_checkpoints(verified: Verified) -> None:
    folder = verified.run / CHECKPOINTS
    stated = {statement.predicate["name"]: statement for statement in verified.of("checkpoint")}
    holders = {
        statement.subjects[f"{CHECKPOINTS}/{name}/{STATE}"]: name
        for name, statement in stated.items()
    }
    existing = {
        path.name
        for path in folder.glob("step-*")
        if key_of(path.name) and any((path / name).exists() for name in (STATE, META, DONE))
    }
    by_policy, dropped = kept_by_policy(verified, existing - stated.keys()), list[str]()
    for name, statement in stated.items():
        step = statement.predicate["step"]
        if name not in existing:
            if name in by_policy:
                text = f"is missing; the run would have kept the checkpoint of step {step}"
                verified.add("broken", f"{CHECKPOINTS}/{name}", text)
            else:
                dropped.append(f"{step}")
            continue
        for file in (STATE, META):
            link = f"{CHECKPOINTS}/{name}/{file}"
            try:
                digest = digest_file(verified.run / link)
            except OSError:
                verified.add("broken", link, f"is missing from the checkpoint of step {step}")
                continue
            other = holders.get(digest)
            if digest == statement.subjects[link]:
                continue
            if file == STATE and other:
                text = f"holds the weights of {other}, not those stated after step {step}"
            else:
                text = f"has other bytes than were stated after step {step}"
            verified.add("broken", link, text)
    if dropped:
        text = f"deleted as the run keeps few, so steps begin at none of: {', '.join(dropped)}"
        verified.add("note", CHECKPOINTS, text)
    for name in sorted(existing - stated.keys()):
        text = (
            "was not stated: its attempt was killed at that moment, which the next attempt"
            " states, or it was added"
        )
        verified.add("gap", f"{CHECKPOINTS}/{name}", text)


def kept_by_policy(verified: Verified, unstated: set[str]) -> set[str]:
    """Return the names of the checkpoints that the rules of the run have left.

    Args:
        verified: Statements of the run.
        unstated: Names of the checkpoints that are there, but were not stated.
    """
    left, rules = list[Entry](), None
    for statement in verified.statements:
        if statement.kind == "start":
            rules = statement.predicate["configuration"]["config"]["checkpoint"]
        if statement.kind != "checkpoint" or rules is None:
            continue
        predicate = statement.predicate
        for name in predicate["missed"]:
            key = key_of(name)
            left += [Entry(key, "valid")] if key else []
        key = key_of(predicate["name"])
        if key is None:
            continue
        left.append(Entry(key, "valid", predicate["score"]))
        left = _without_deleted(left, rules)
    left += [Entry(key, "valid") for name in unstated if (key := key_of(name))]
    if rules is not None and unstated:
        left = _without_deleted(left, rules)
    keys = {entry.key for entry in left}
    names = (statement.predicate["name"] for statement in verified.of("checkpoint"))
    return {name for name in names if key_of(name) in keys}


def _without_deleted(left: list[Entry], rules: Mapping[str, Any]) -> list[Entry]:
    doomed = to_delete(
        left,
        rules["keep"],
        keep_best=rules["keep_best"],
        keep_every_steps=rules["keep_every_steps"],
    )
    return [entry for entry in left if entry not in doomed]


def _check_result(verified: Verified) -> None:
    results, result = verified.of("result"), verified.run / "result.json"
    if not results:
        if result.exists():
            verified.add("gap", "result.json", "was not stated; start the run again to complete it")
        return
    stated = results[-1]
    continued = any(start.number > stated.number for start in verified.of("start"))
    for name, digest in stated.subjects.items():
        if continued and name != "result.json":
            # A longer run writes these again.
            continue
        _check_file(verified, name, digest, stated, stated.predicate["result"])


def _check_export(verified: Verified) -> None:
    exports = verified.of("export")
    now = export_digests(verified.run)
    if not exports:
        if now:
            verified.add("gap", "export", "was not stated; start the run again to complete it")
        return
    stated = exports[-1]
    if not now:
        verified.add("gap", "export", "is not here")
        return
    for name, digest in stated.subjects.items():
        _check_file(verified, name, digest, stated, stated.predicate["facts"])
    for name in sorted(now.keys() - stated.subjects.keys()):
        verified.add("broken", name, f"was added to the export since {stated}")


def _check_file(verified: Verified, name: str, digest: str, stated: Statement, facts: Any) -> None:
    """Compare a file; if it is JSON whose content was stated, name the values that have changed."""
    path = verified.run / name
    if not path.is_file():
        verified.add("broken", name, "is missing")
        return
    if digest_file(path) == digest:
        return
    text = f"has other bytes than in {stated}"
    if path.name in ("result.json", "export.json"):
        try:
            changes = list(differences(facts, parse_json(path.read_text())))
        except ValueError:
            changes = ["it is truncated, or not JSON"]
        text += f": {'; '.join(changes[:5])}" if changes else ""
    verified.add("broken", name, text)


def check_data(
    verified: Verified, folder: Path | None, beside: Path | None, *, shards: bool
) -> None:
    """Compare a data set with the statement of the newest start.

    Args:
        verified: Statements of the run.
        folder: Folder of the manifest; None for synthetic data.
        beside: Folder of the shards; None if it is not known.
        shards: Whether to read the shards.
    """
    starts = verified.of("start")
    if folder is None or not starts:
        return
    stated, manifest = starts[-1], folder / "manifest.json"
    data = stated.predicate["data"]
    if not manifest.is_file():
        verified.add("gap", "data", f"{folder} has no data set; give its folder with --data-dir")
        return
    if digest_file(manifest) != data["sha256"]:
        verified.add("broken", "data/manifest.json", f"has other bytes than in {stated}")
    owners = {shard["xxh128"]: shard["file"] for shard in data["shards"]}
    for shard in data["shards"] if shards else ():
        path = (beside or folder) / shard["file"]
        link = f"shard {shard['file']}"
        if not path.is_file():
            verified.add("broken", link, "is missing")
            continue
        seen, size = xxhash.xxh3_128(), path.stat().st_size
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                seen.update(chunk)
        now = seen.hexdigest()
        if now == shard["xxh128"]:
            continue
        if now in owners:
            text = f"holds the bytes of shard {owners[now]}"
        elif size < shard["bytes"]:
            text = f"is truncated: {size:,} bytes, not {shard['bytes']:,}"
        else:
            text = f"has other bytes than at step {stated.predicate['step']}"
        verified.add("broken", link, text)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
