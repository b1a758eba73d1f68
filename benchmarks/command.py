"""`python -m benchmarks WHAT`: contenders take turns, a table says how they did.

`loop` and `exchange` measure in worlds of ranks: the command starts itself again as the ranks, of
which rank 0 writes what all have measured into a file that the command reads.
"""

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.measure import Samples, ratio, take_turns, to_json, write_json
from benchmarks.options import (
    CheckpointBenchmark,
    ExchangeBenchmark,
    InputBenchmark,
    LoopBenchmark,
    TrainBenchmark,
)
from common.errors import UserError
from trainer.config import ExchangeConfig
from trainer.diagnostics.environment import cores, environment
from trainer.distributed.horovod import Communicator, Horovod, connect
from trainer.distributed.launcher import is_rank, launch
from trainer.presets import PRESETS

_RESULT = "TRAINER_BENCHMARK_RESULT"
"""Environment variable that names the file which rank 0 writes."""


def loop(options: LoopBenchmark, args: Sequence[str]) -> None:
    """Measure the loop; `args` are the command's own, for its ranks."""
    if is_rank(os.environ):
        _measure_loop(options)
        return
    started_on = environment()
    worlds = {ranks: _in_world(["loop", *args], ranks)["samples"] for ranks in options.ranks}
    print("\n" + tables.loop(worlds))
    for ranks, samples in worlds.items():
        found = tables.read(samples)
        for other, goal in ((tables.BARE_LOOP, 1.10), (tables.CALLS, 0.70)):
            part = ratio(found, tables.OURS, other)
            where = "1 rank" if ranks == 1 else f"{ranks} ranks"
            print(f"{where}: our loop / {other} {part.text()}; the goal is at most {goal:.2f}")
    write_json(options.json, "loop", started_on, options=options, worlds=worlds)


def _measure_loop(options: LoopBenchmark) -> None:
    from benchmarks.training.loop_contenders import contenders

    world = _join()
    with tempfile.TemporaryDirectory() as folder:
        found = contenders(world, Path(folder), options.steps)
        _tell(world, samples=take_turns(found, options.rounds, world))
    world.shutdown()


def exchange(options: ExchangeBenchmark, args: Sequence[str]) -> None:
    """Measure the exchange; `args` are the command's own, for its ranks."""
    if is_rank(os.environ):
        _measure_exchange(options)
        return
    started_on = environment()
    result = _in_world(["exchange", *args], options.ranks)
    print("\n" + tables.exchange(result["samples"], result["sent"]))
    write_json(options.json, "exchange", started_on, options=options, **result)


def _measure_exchange(options: ExchangeBenchmark) -> None:
    from benchmarks.training.exchange_contenders import Contenders

    world = _join()
    assert isinstance(world, Horovod)
    contenders = Contenders(world, options.exchanges)
    samples = take_turns(contenders.all, options.rounds, world)
    _tell(world, samples=samples, sent=contenders.bytes_sent())
    world.shutdown()


def train(options: TrainBenchmark) -> None:
    """Measure whole trainings of synthetic images."""
    if len(options.steps) != len(options.image_sizes):
        raise UserError("--steps: give one number for each of --image-sizes")
    from benchmarks.training.train import Contenders

    started_on = environment()
    sizes: dict[int, list[dict[str, float]]] = {}
    for size, steps in zip(options.image_sizes, options.steps, strict=True):
        # One more, as the first is compilation and not timed.
        trainer = ["--model.image-size", str(size), "--max-steps", str(steps + 1)]
        with tempfile.TemporaryDirectory() as folder:
            contenders = Contenders(Path(folder), trainer)
            sizes[size] = []
            for number in range(options.rounds):
                sizes[size].append(contenders.rates())
                _say(f"{size} pixels, round {number + 1} of {options.rounds}: {sizes[size][-1]}")
    print("\n" + tables.train(sizes))
    write_json(options.json, "train", started_on, options=options, rounds=sizes)


def checkpoint(options: CheckpointBenchmark) -> None:
    """Measure what saving costs a training."""
    from benchmarks.training.checkpoint_contenders import Contenders

    started_on = environment()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        contenders = Contenders(Path(folder), options.steps)
        rounds: dict[str, list[dict[str, float | None]]] = {name: [] for name in contenders.all}
        for number in range(options.rounds + 1):
            turns = {name: asdict(save()) for name, save in contenders.all.items()}
            if number == 0:
                _say("warmed up")
                continue
            for name, turn in turns.items():
                rounds[name].append(turn)
            _say(f"round {number} of {options.rounds}")
        contenders.close()
    print("\n" + tables.checkpoint(rounds, contenders.bytes))
    for what, field in (("standing still", "stall_ms"), ("the step", "step_with_save_ms")):
        part = tables.saving_ratio(rounds, tables.IN_BACKGROUND, field)
        print(f"in the background / synchronous, {what}: {part.text()}; the goal is at most 0.10")
    write_json(
        options.json,
        "checkpoint",
        started_on,
        options=options,
        rounds=rounds,
        bytes=contenders.bytes,
    )


def input_(options: InputBenchmark) -> None:
    """Measure the input pipeline of a data set."""
    if options.data is not None:
        _input(options, options.data)
        return
    from trainer.data.builtin.synthetic import prepare_noise

    with tempfile.TemporaryDirectory() as folder:
        prepare_noise(f"{folder}/noise", 1000)
        _input(options, f"{folder}/noise")


def _input(options: InputBenchmark, folder: str) -> None:
    from benchmarks.data.input_contenders import Contenders, PeakMemory
    from trainer.distributed.horovod import Alone

    started_on = environment()
    data = PRESETS["imagenet-1gpu"].data
    threads = options.threads or cores()
    contenders = Contenders(folder, data, options.image_size, options.batch_size, threads)
    memory = PeakMemory()
    pipeline = contenders.pipeline(options.batches)
    pipeline()
    peak = memory.added()
    floor = contenders.floor(options.batches * options.batch_size)
    turns = {
        tables.PIPELINE: pipeline,
        tables.FLOOR: floor,
        tables.TEXTBOOK: contenders.textbook(options.batches, options.image_size),
    }
    if options.reencoded:
        other = Contenders(options.reencoded, data, options.image_size, options.batch_size, threads)
        turns[tables.REENCODED] = other.pipeline(options.batches)
    samples = take_turns(turns, options.rounds, Alone(), settle=True)
    facts: dict[str, Any] = {
        "bytes_per_image": contenders.bytes_per_image,
        "peak_mib": peak,
        "threads": threads,
    }
    print("\n" + tables.input_(samples, **facts))
    write_json(options.json, "input", started_on, options=options, samples=samples, **facts)


def _join() -> Communicator:
    from trainer.diagnostics.device import set_up_device

    world = connect(ExchangeConfig())
    set_up_device(PRESETS["synthetic"], world)
    return world


def _in_world(args: Sequence[str], ranks: int) -> dict[str, Any]:
    """Run `python -m benchmarks ARGS` as some ranks; what rank 0 told."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        os.environ[_RESULT] = str(file)
        status = launch(args, ranks, "benchmarks")
        if status:
            raise UserError(f"the ranks of the benchmark ended with status {status}")
        result: dict[str, Any] = json.loads(file.read_text())
    return result


def _tell(world: Communicator, samples: Samples, **facts: Any) -> None:
    """Let rank 0 write down what was measured, for the command that started the ranks."""
    if world.rank == 0:
        Path(os.environ[_RESULT]).write_text(to_json({"samples": samples, **facts}))


def _say(text: str) -> None:
    print(text, flush=True)
