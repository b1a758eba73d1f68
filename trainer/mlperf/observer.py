"""Writes the log of an attempt as MLPerf Training's rules describe it: lines of `:::MLLOG`.

Keys and their meanings: https://github.com/mlcommons/training_policies (training_rules.adoc), and
https://github.com/mlcommons/logging, whose compliance checker has them as rules. ResNet was a
benchmark up to MLPerf Training 4.0.
"""

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from trainer.data.data_set import manifest_folder
from trainer.data.manifest import read_manifest
from trainer.loggers.observer import Observed, Observer
from trainer.mlperf.leaf import MlperfOptions

BENCHMARK: Final = "resnet"
Event = Literal["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"]


def mlperf_observer(observed: Observed) -> Observer:
    """Return what writes the log on rank 0; elsewhere, or if it is not wanted, what does
    nothing.
    """
    if observed.communicator.rank or not observed.config.of(MlperfOptions).log:
        return Observer()
    return MlperfObserver(observed)


class MlperfObserver(Observer):
    """Writes the log of one attempt.

    A block lasts from one evaluation to the next. The run begins with the first step, whose tracing
    and compilation belong to it, and ends with its last evaluation.
    """

    def __init__(self, observed: Observed) -> None:
        self._config, self._folder = observed.config, observed.folder / "mlperf"
        self._options = observed.config.of(MlperfOptions)
        self._lines: list[str] = []
        self._file: Path | None = None
        self._running = self._block = False
        self._epoch, self._first, self._stepped = 0, 1, _now()
        options = self._options
        # First, because the division decides how the checker reads what follows.
        self._points(
            {
                "submission_benchmark": BENCHMARK,
                "submission_org": options.organization,
                "submission_division": options.division,
                "submission_status": options.status,
                "submission_platform": options.platform,
                "cache_clear": False,
            }
        )
        self._write("INTERVAL_START", "init_start")

    def begin(self, parameters: Mapping[str, object], tags: Mapping[str, object]) -> None:
        """See `Observer`: what came before is written now, as the file is named after the
        attempt. A run that had taken all its steps before is none of this attempt.
        """
        if not self._running:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file = self._folder / f"attempt-{tags['trainer.attempt']}.log"
        self._file.unlink(missing_ok=True)
        self._points(
            {
                "seed": self._config.seed,
                "global_batch_size": parameters["global_batch"],
                "gradient_accumulation_steps": self._config.optimizer.accumulation,
                **self._optimizer(),
                **self._samples(),
            }
        )

    def add(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """See `Observer`: an evaluation, which began when the steps before it had ended."""
        del step
        if not self._running:
            return
        self._epoch = math.ceil(values["epoch"])
        if event != "evaluation":
            return
        epoch = {"epoch_num": self._epoch}
        self._stop_block()
        self._write("INTERVAL_START", "eval_start", epoch, self._stepped)
        score = values[self._config.described_task.evaluation[0].key]
        self._write("POINT_IN_TIME", "eval_accuracy", epoch, value=score)
        self._stepped = _now()
        self._write("INTERVAL_END", "eval_stop", epoch, self._stepped)

    def around(self, step: int) -> AbstractContextManager[Any]:
        """See `Observer`: steps begin and end."""
        del step
        return self._steps()

    def end(self, status: int, *, failed: bool) -> None:
        """See `Observer`: the run is over since its last evaluation, or was stopped just now."""
        if not self._running or self._file is None:
            return
        whole = status == 0 and not failed
        self._stop_block()
        words = {"status": "success" if whole else "aborted"}
        self._write("INTERVAL_END", "run_stop", words, self._stepped if whole else _now())

    @contextmanager
    def _steps(self) -> Iterator[None]:
        if not self._running:
            self._running = True
            self._write("INTERVAL_END", "init_stop")
            self._write("INTERVAL_START", "run_start")
        if not self._block:
            self._block, self._first = True, self._epoch + 1
            count = max(self._config.evaluation.every_epochs, 1)
            block = {"first_epoch_num": self._first, "epoch_count": count}
            self._write("INTERVAL_START", "block_start", block)
        yield
        self._stepped = _now()

    def _stop_block(self) -> None:
        if self._block:
            self._block = False
            number = {"first_epoch_num": self._first}
            self._write("INTERVAL_END", "block_stop", number, self._stepped)

    def _optimizer(self) -> dict[str, Any]:
        given = self._config.optimizer
        name = "sgd" if given.kind == "momentum" else given.kind
        found = {
            "base_learning_rate": given.learning_rate,
            "weight_decay": given.weight_decay,
            "momentum": given.momentum,
        }
        return {
            "opt_name": name,
            **{f"{name}_opt_{key}": value for key, value in found.items()},
            "opt_learning_rate_warmup_epochs": given.warmup_epochs,
        }

    def _samples(self) -> dict[str, int]:
        """Return the numbers of images, which synthetic data do not have."""
        folder = manifest_folder(self._config)
        if folder is None:
            return {}
        splits = read_manifest(folder).splits
        return {
            "train_samples": splits["train"].examples,
            "eval_samples": splits["validation"].examples,
        }

    def _points(self, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            self._write("POINT_IN_TIME", key, value=value)

    def _write(
        self,
        event: Event,
        key: str,
        metadata: Mapping[str, Any] | None = None,
        milliseconds: int | None = None,
        value: Any = None,
    ) -> None:
        line = {
            "namespace": "",
            "time_ms": _now() if milliseconds is None else milliseconds,
            "event_type": event,
            "key": key,
            "value": value,
            "metadata": dict(metadata or {}),
        }
        self._lines.append(f":::MLLOG {json.dumps(line)}\n")
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.writelines(self._lines)
            self._lines.clear()


def _now() -> int:
    return time.time_ns() // 1_000_000
