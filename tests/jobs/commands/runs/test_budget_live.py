"""What `submit --budget` says and refuses before it submits anything."""

import re

import pytest

from common.prices import NodePrices
from jobs.azure.workspace import connect
from jobs.cli import main
from jobs.commands.runs import budget
from jobs.spec.budget_policy import Budget
from tests.jobs.support.runs import declare_job
from tests.jobs.support.tiny import TRAINED, begin, status, wait_for

pytestmark = pytest.mark.usefixtures("outputs")

HAD = Budget(5, "USD", 0.8, nodes=1)


def dry(*options, program=()):
    words = ["submit", "--kind", "smoke", "--dry-run", *options]
    return main([*words, "--", *program] if program else words)


def had(live, name):
    """An attempt with a budget that has ended after some moments."""
    declare_job(live, f"{name}-r1", {"run": name, "kind": "smoke", **HAD.tags}, "sleep 0.2")
    wait_for(lambda: status(live, f"{live.workspace}/jobs/{name}-r1") == "Completed")


def test_the_summary_says_how_long_a_budget_lasts_and_in_which_currency(capsys):
    assert dry("--budget", "2") == 0
    said = capsys.readouterr().out
    assert "note: --budget: 2.00 USD: pays for 1 node at 0.8000 USD an hour for 2 h 30 min" in said
    assert "timeout  2 hours" in said


def test_earlier_attempts_count_whatever_they_were_submitted_with(live, capsys):
    had(live, "earlier")
    assert dry("--name", "earlier", "--budget", "0.05", "--budget-margin-minutes", "0.5") == 0
    said = capsys.readouterr().out
    assert "earlier, attempt 2" in said
    [spent] = re.findall(r"0\.0500 USD, of which (\S+) ", said)
    assert 0 <= float(spent) < 0.02


def test_a_run_that_is_submitted_again_gets_what_is_left(live, outputs):
    once = 'if [ ! -e "${{outputs.run}}/n" ] && touch "${{outputs.run}}/n"'
    command = f": --max-seconds 22200; sleep 0.5; {once}; then exit 143; fi; {TRAINED}"
    # 5 USD pay for a node for 6 h 15 min.
    begin(live, "rationed", command, timeout="PT6H15M", tags=HAD.tags)
    again = ["--supervise", "--resubmit.backoff-seconds", "0.1", "--poll-seconds", "0.1"]
    assert main(["follow", "rationed", *again]) == 0
    first, second = connect(outputs).jobs.attempts("rationed")
    left = Budget.of(second.tags, second.nodes)
    assert 0 < left.spent < 0.01
    assert left.limits().timeout_seconds == second.timeout_seconds
    assert second.timeout_seconds < first.timeout_seconds == 22_500
    seconds = int(re.search(r"--max-seconds (\d+);", second.body["command"])[1])
    assert second.timeout_seconds - 301 <= seconds <= second.timeout_seconds - 300


def test_a_budget_that_is_left_out_when_a_run_is_continued_is_noted(live, capsys):
    had(live, "without")
    assert dry("--name", "without") == 0
    assert "earlier attempts had one of 5 USD; this attempt has none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "program", "why"),
    [
        (["--budget", "0.02"], [], "pass more than 0.1333 USD, fewer --nodes"),
        (["--budget", "-1"], [], "--budget: -1"),
        (["--kind", "check", "--budget", "9"], [], "a check does not stop by itself"),
        (["--budget", "9"], ["--max-seconds", "60"], "is set from --budget; omit one of them"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(capsys, options, program, why):
    assert dry(*options, program=program) == 2
    assert why in capsys.readouterr().err


def test_nodes_without_a_price_have_no_budget(capsys, monkeypatch):
    monkeypatch.setattr(budget, "read_prices", lambda _: NodePrices())
    assert dry("--budget", "9") == 2
    said = capsys.readouterr().err
    assert "Azure states no price of Dedicated nodes of Standard_D16ads_v5 in this region" in said
    assert "pass --timeout-hours and, some minutes shorter, -- --max-seconds" in said


def test_earlier_attempts_whose_cost_nobody_knows_leave_an_unknown_rest(live, capsys, monkeypatch):
    had(live, "costless")
    monkeypatch.setattr(budget.JobCosts, "_details", lambda *_: None)
    assert dry("--name", "costless", "--budget", "9") == 2
    assert "what earlier attempts of costless have cost is not known" in capsys.readouterr().err
