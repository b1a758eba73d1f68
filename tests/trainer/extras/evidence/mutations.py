"""Changes of a run that a forger might make, each with the expected finding.

A mutation changes the folder that it gets, and returns the link that it broke and a part of the
finding. `rng` chooses the place.
"""

import json
import re
import shutil

from trainer.checkpoints.format import META, STATE
from trainer.extras.evidence.statements import statement_files

LABEL = re.compile(rb"label\x12.\x1a.\x0a\x01(.)", re.DOTALL)


def run_of(place):
    return place / "runs" / "run"


def flip(path, position):
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def shards(place):
    return sorted((place / "data" / "digits").glob("*tfrecord*"))


def checkpoints(place):
    return sorted((run_of(place) / "checkpoints").glob("step-*"))


def statements(place):
    return statement_files(run_of(place) / "evidence")


def named(path, place):
    return path.relative_to(run_of(place)).as_posix()


def image_byte(place, rng):
    shard = rng.choice(shards(place))
    flip(shard, rng.randrange(shard.stat().st_size))
    return f"shard {shard.name}", "has other bytes than at step"


def label(place, rng):
    shard = rng.choice(shards(place))
    content = shard.read_bytes()
    found = rng.choice(list(LABEL.finditer(content)))
    changed = bytearray(content)
    changed[found.start(1)] = (changed[found.start(1)] + 1) % 10
    shard.write_bytes(changed)
    return f"shard {shard.name}", "has other bytes than at step"


def option(place, rng):
    path = run_of(place) / "config.json"
    data = json.loads(path.read_text())
    group, key, value = rng.choice(
        [
            ("optimizer", "learning_rate", 0.123),
            ("optimizer", "momentum", 0.5),
            ("data", "shuffle_window", 49),
            ("data", "augment", "none"),
            ("model", "width", 5),
            ("compute", "precision", "mixed_bfloat16"),
        ]
    )
    was, data["config"][group][key] = data["config"][group][key], value
    path.write_text(json.dumps(data, indent=1) + "\n")
    return (
        "config.json",
        f"config.{group}.{key} was {json.dumps(was)}, is now {json.dumps(value)}",
    )


def weight(place, rng):
    folder = rng.choice(checkpoints(place))
    path = folder / STATE
    header = int.from_bytes(path.read_bytes()[:8], "little") + 8
    flip(path, rng.randrange(header, path.stat().st_size))
    step = int(folder.name[5:15])
    return named(path, place), f"has other bytes than were stated after step {step}"


def position(place, rng):
    path = rng.choice(checkpoints(place)) / META
    data = json.loads(path.read_text())
    data["step"] += 1
    path.write_text(json.dumps(data, indent=1))
    return named(path, place), "has other bytes than were stated after step"


def swapped_shards(place, rng):
    one, other = rng.sample(shards(place), 2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return f"shard {one.name}", f"holds the bytes of shard {other.name}"


def dropped_shard(place, rng):
    shard = rng.choice(shards(place))
    shard.unlink()
    return f"shard {shard.name}", "is missing"


def truncated_shard(place, rng):
    shard = rng.choice(shards(place))
    content = shard.read_bytes()
    shard.write_bytes(content[: rng.randrange(1, len(content))])
    return f"shard {shard.name}", "is truncated"


def manifest(place, rng):
    path = place / "data" / "digits" / "manifest.json"
    data = json.loads(path.read_text())
    data["classes"][rng.randrange(10)] = "other"
    path.write_text(json.dumps(data))
    return "data/manifest.json", "has other bytes than in statement"


def dropped_checkpoint(place, rng):
    folder = rng.choice(checkpoints(place))
    shutil.rmtree(folder)
    return named(folder, place), "is missing; the run would have kept the checkpoint of step"


def reordered_checkpoints(place, rng):
    one, other = rng.sample(checkpoints(place), 2)
    scratch = one.with_name("scratch")
    one.rename(scratch)
    other.rename(one)
    scratch.rename(other)
    return f"{named(one, place)}/{STATE}", f"holds the weights of {other.name}"


def truncated_checkpoint(place, rng):
    path = rng.choice(checkpoints(place)) / STATE
    path.write_bytes(path.read_bytes()[:-1])
    return named(path, place), "has other bytes than were stated after step"


def added_checkpoint(place, rng):
    folder = rng.choice(checkpoints(place))
    added = folder.with_name("step-0000000017.a9")
    shutil.copytree(folder, added)
    return named(added, place), "was not stated"


def forged_signature(place, rng):
    path = rng.choice(statements(place))
    envelope = json.loads(path.read_text())
    signature = envelope["signatures"][0]
    signature["sig"] = ("B" if signature["sig"][0] == "A" else "A") + signature["sig"][1:]
    path.write_text(json.dumps(envelope, indent=1) + "\n")
    return named(path, place), "its signature is forged"


def removed_signature(place, rng):
    path = rng.choice(statements(place))
    envelope = json.loads(path.read_text())
    path.write_text(json.dumps({**envelope, "signatures": []}, indent=1) + "\n")
    return named(path, place), "is not signed"


def rewritten(place, rng, kinds, change):
    """Change the content of a statement, under its old signature."""
    path = rng.choice([path for path in statements(place) if path.stem[7:] in kinds])
    envelope = json.loads(path.read_text())
    payload = json.loads(unpack(envelope["payload"]))
    change(payload["predicate"])
    envelope["payload"] = pack(json.dumps(payload).encode())
    path.write_text(json.dumps(envelope, indent=1) + "\n")
    return named(path, place), "its signature is forged"


def pack(content):
    import base64

    return base64.b64encode(content).decode()


def unpack(text):
    import base64

    return base64.b64decode(text)


def other_lock(place, rng):
    def change(predicate):
        if predicate["locks"]:
            predicate["locks"][rng.choice(sorted(predicate["locks"]))] = "0" * 64
        predicate["packages"]["versions"]["numpy"] = "1.0"

    return rewritten(place, rng, ("start",), change)


def other_environment(place, rng):
    return rewritten(
        place, rng, ("start",), lambda predicate: predicate["environment"].update(processor="other")
    )


def other_code(place, rng):
    def change(predicate):
        files = predicate["code"]["files"]
        files[rng.choice(sorted(files))] = "0" * 64

    return rewritten(place, rng, ("start",), change)


def stated_result(place, rng):
    return rewritten(
        place, rng, ("result",), lambda predicate: predicate["result"].update(top1=1.0)
    )


def stated_step(place, rng):
    return rewritten(place, rng, ("checkpoint",), lambda predicate: predicate.update(step=19))


def truncated_statement(place, rng):
    path = rng.choice(statements(place))
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content) - 3)])
    return named(path, place), "is truncated, or not a statement"


def dropped_statement(place, rng):
    files = statements(place)
    number = rng.randrange(len(files) - 1)
    files[number].unlink()
    return named(files[number + 1], place), f"statement {number + 1} before it is missing"


def dropped_ending(place, rng):
    del rng
    statements(place)[-1].unlink()
    return "export", "was not stated"


def reordered_statements(place, rng):
    files = statements(place)
    one, other = sorted(rng.sample(range(len(files)), 2))
    content = files[one].read_bytes()
    files[one].write_bytes(files[other].read_bytes())
    files[other].write_bytes(content)
    return named(files[one], place), f"is statement {other + 1}"


def edited_result(place, rng):
    path = run_of(place) / "result.json"
    data = json.loads(path.read_text())
    key = rng.choice(["top1", "top5", "steps", "ranks"])
    was, data[key] = data[key], data[key] + 1
    path.write_text(json.dumps(data, indent=1) + "\n")
    return "result.json", f"{key} was {was}, is now {data[key]}"


def truncated_result(place, rng):
    path = run_of(place) / "result.json"
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content) - 2)])
    return "result.json", "it is truncated, or not JSON"


def edited_prediction(place, rng):
    path = run_of(place) / "predictions.csv"
    flip(path, rng.randrange(path.stat().st_size))
    return "predictions.csv", "has other bytes than in statement"


def edited_metrics(place, rng):
    path = run_of(place) / "metrics.jsonl"
    flip(path, rng.randrange(path.stat().st_size))
    return "metrics.jsonl", "has other bytes than in statement"


def export_byte(place, rng):
    files = [path for path in (run_of(place) / "export").rglob("*") if path.is_file()]
    path = rng.choice(sorted(files))
    flip(path, rng.randrange(path.stat().st_size))
    return named(path, place), "has other bytes than in statement"


def export_file(place, rng):
    path = run_of(place) / "export" / f"model-{rng.randrange(9)}.onnx"
    path.write_bytes(b"another model")
    return named(path, place), "was added to the export since statement"


MUTATIONS = {
    mutation: count
    for count, listed in (
        (12, (image_byte, weight, forged_signature)),
        (7, (label, option, swapped_shards, edited_result, export_byte)),
        (
            5,
            (
                *(position, truncated_shard, other_lock, other_code, truncated_statement),
                *(dropped_statement, reordered_statements, removed_signature),
            ),
        ),
        (4, (truncated_checkpoint, edited_prediction, edited_metrics, stated_step)),
        (3, (dropped_shard, truncated_result, manifest, other_environment, stated_result)),
        (2, (dropped_checkpoint, reordered_checkpoints, export_file)),
        (1, (added_checkpoint, dropped_ending)),
    )
    for mutation in listed
}
"""How often each is tried, 150 in all."""
