"""`ml-trainer verify-model RUN`."""

import json
import random
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from common.errors import ConfigError, UserError
from common.text import plural
from trainer.data.data_set import manifest_folder
from trainer.data.manifest import FILE_NAME, read_manifest
from trainer.errors import CheckpointError, DataError
from trainer.extras.evidence.chain import Verified
from trainer.extras.evidence.options import VerifyModelOptions
from trainer.extras.evidence.replay import (
    Launch,
    Outcome,
    Replay,
    launch,
    links,
    plan_replay,
    replay,
)
from trainer.extras.evidence.verify import check_data, verify
from trainer.run_folder import RunFolder


class EvidenceError(UserError):
    """A run contradicts its statements, or they do not show enough."""

    exit_code = CheckpointError.exit_code


def verify_model(options: VerifyModelOptions, launched: Launch = launch) -> None:
    """Check the statements of a run, replay some of its steps, and print the findings.

    Args:
        options: What to check.
        launched: Starts a replay.

    Raises:
        EvidenceError: Something contradicts its statement, or could not be shown.
        CheckpointError: The folder is not a run folder, or the steps cannot be replayed.
    """
    if problems := options.problems():
        raise ConfigError(problems)
    run = Path(options.run).resolve()
    if not run.is_dir():
        raise CheckpointError(f"{options.run}: there is no such run folder")
    key = None
    if options.key is not None:
        from trainer.extras.evidence.signing import PublicKey  # noqa: PLC0415 needs an optional group

        key = PublicKey(Path(options.key))
    verified = verify(run, key)
    _check_data(verified, options)
    outcomes = list[Outcome]()
    if not verified.broken and verified.of("checkpoint"):
        outcomes = _replay(verified, options, launched)
    _tell(verified, outcomes, as_json=options.json)


def _check_data(verified: Verified, options: VerifyModelOptions) -> None:
    """Compare the data set of the run with its statements."""
    try:
        config = RunFolder(verified.run).read().config
    except CheckpointError as error:
        verified.add("gap", "config.json", f"cannot be used ({error})")
        return
    if options.data_dir is not None:
        config = replace(config, data=replace(config.data, dir=options.data_dir))
    folder, beside = manifest_folder(config), None
    if folder is not None and (folder / FILE_NAME).is_file():
        try:
            beside = read_manifest(folder).folder(folder)
        except DataError as error:
            verified.add("broken", "data/manifest.json", str(error))
    check_data(verified, folder, beside, shards=options.shards)


def _replay(verified: Verified, options: VerifyModelOptions, launched: Launch) -> list[Outcome]:
    if options.from_ is not None and options.to is not None:
        chosen = [(options.from_, options.to)]
    else:
        possible = links(verified)
        # Steps that a run could have foreseen would show little.
        count = min(options.sample, len(possible))
        chosen = sorted(random.SystemRandom().sample(possible, count))
        if count < options.sample:
            verified.add("note", "replay", f"only {plural(count, 'link')} can be replayed")
    outcomes = list[Outcome]()
    with tempfile.TemporaryDirectory(prefix="replay-") as scratch:
        for number, (begin, end) in enumerate(chosen):
            how = Replay(
                verified,
                Path(scratch) / f"{number}",
                options.ranks,
                options.data_dir,
                options.tolerance,
                launched,
            )
            outcomes += replay(how, plan_replay(verified, begin, end))
    for outcome in outcomes:
        if outcome.broken:
            verified.add("broken", f"steps {outcome.origin} to {outcome.step}", outcome.text)
    return outcomes


def _tell(verified: Verified, outcomes: list[Outcome], *, as_json: bool) -> None:
    """Print the findings.

    Raises:
        EvidenceError: Something is broken, or missing.
    """
    verdict = "broken" if verified.broken else "incomplete" if verified.gaps else "holds"
    shown = [item for item in outcomes if not item.broken]
    if as_json:
        document = {
            "run": str(verified.run),
            "verdict": verdict,
            "statements": len(verified.statements),
            "findings": [asdict(item) for item in verified.findings],
            "replayed": [asdict(item) for item in shown],
        }
        print(json.dumps(document, indent=1))
    else:
        print(f"{verified.run}: {plural(len(verified.statements), 'statement')}")
        for note in (item for item in verified.findings if item.level == "note"):
            print(f"  {note}")
        for item in shown:
            print(f"  replayed steps {item.origin} to {item.step}: {item.text}")
    if verdict == "holds":
        if not as_json:
            print("every statement holds" + ("" if shown else "; no step was replayed"))
        return
    wrong = verified.broken or verified.gaps
    words = (
        "differs from its statements" if verified.broken else "cannot be shown from its statements"
    )
    listed = "\n".join(f"  - {item}" for item in wrong)
    raise EvidenceError(f"{verified.run}: {words}:\n{listed}")
