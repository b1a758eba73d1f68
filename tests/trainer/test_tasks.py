"""Every task has all parts that the trunk needs, and no two tasks are mistaken for each other."""

import pytest

from common.program import load
from trainer.data.targets import target_decoder
from trainer.leaves import EMBEDDED, TASKS, metrics_in, score_in
from trainer.networks import NETWORKS
from trainer.presets import PRESETS
from trainer.tasks.task import make_task


@pytest.mark.parametrize("name", TASKS)
def test_what_a_task_names_is_there_and_of_this_task(name):
    task, config = TASKS[name], PRESETS[TASKS[name].suggestion.small]
    assert make_task(config, 3).description is task
    assert (config.task, config.data.source) == (name, task.embedded.source)
    assert NETWORKS[config.model.network].per == task.per
    assert NETWORKS[task.suggestion.network].per == task.per
    assert callable(target_decoder(name).fault)
    metrics = [metric.of for metric in task.evaluation]
    records = (task.embedded.records, *task.features.values())
    for path in (task.report, task.answers.read, *records, *metrics):
        assert callable(load(path))


def test_results_tell_their_task():
    assert next(iter(TASKS)) == "classification"
    assert len(EMBEDDED) == len(TASKS)
    for task in TASKS.values():
        values = {metric.key: 0.5 - number / 10 for number, metric in enumerate(task.evaluation)}
        assert metrics_in(values) == task.evaluation
        assert score_in({"evaluation": values}) == 0.5
        last = task.evaluation[-1].key
        assert score_in({"evaluation": values, "decided_by": last}) == values[last]
        assert metrics_in({task.evaluation[0].key: 0.5}) == task.evaluation[:1]
    assert score_in({"evaluation": None}) is None
    assert metrics_in({"loss": 1.0}) == ()
    outputs = [task.answers.outputs for task in TASKS.values()]
    assert not any(one < other for one in outputs for other in outputs)
