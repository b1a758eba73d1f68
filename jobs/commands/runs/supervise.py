"""`python -m jobs supervise`: look after all runs of the workspace that ask for it."""

import sys
import time
from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds
from common.errors import INTERRUPTED
from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.azure.workspace import connect
from jobs.console import Console
from jobs.errors import RequestError
from jobs.following.notices import Notifier, configured_webhook
from jobs.following.rates import rates_of
from jobs.following.supervision_pass import SupervisionPass, failed
from jobs.options import SelfChecked


@dataclass(frozen=True)
class SuperviseOptions(SelfChecked):
    """Submit interrupted runs again, and send notices of runs that have ended, for all runs of the
    workspace that were submitted to be supervised. Any number of machines may do this at once.
    """

    once: bool = False
    """Check all runs once, and end: for a cron job."""

    watch: bool = False
    """Check all runs repeatedly, until Ctrl-C."""

    every_minutes: Annotated[float, Bounds(above=0)] = 5.0
    """Pause between two checks of --watch, in minutes."""

    days: Annotated[float, Bounds(above=0)] = 30.0
    """Leave out runs whose newest attempt was submitted longer ago, in days."""

    dry_run: bool = False
    """Print what would be done, and do nothing."""

    def problems(self) -> list[str]:
        """Return whether it is unknown how often to look."""
        if self.once != self.watch:
            return []
        return ["supervise: pass either --once or --watch"]


def run(options: SuperviseOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Do one pass, or passes until Ctrl-C; return the exit status of the last one."""
    console, workspace = Console(as_json=as_json), connect(outputs)
    webhook = configured_webhook(workspace.requests)
    notifier = Notifier(workspace.jobs, webhook, outputs.stack, console)
    rates = rates_of(workspace.manager, console)
    supervision = SupervisionPass(
        workspace,
        outputs.clusters,
        console,
        notifier,
        days=options.days,
        dry_run=options.dry_run,
        rates=rates,
    )
    if options.once:
        seen = supervision.run()
        looked = f"looked at {plural(len(seen), 'run')}"
        summary = looked if seen else "no run asks for supervision"
        console.answer([attempt.document() for attempt in seen], summary)
        return failed(seen)
    try:
        while True:
            console.say(f"{workspace.manager.now():%Y-%m-%d %H:%M} UTC")
            try:
                seen = supervision.run()
                if any(attempt.did in ("running", "waiting", "submitted") for attempt in seen):
                    rates.look(outputs.clusters.values())
            except RequestError as error:
                # The runs continue in Azure, and the next pass looks at all of them.
                console.note(f"the runs could not be listed: {error}")
            time.sleep(options.every_minutes * 60)
    except KeyboardInterrupt:
        print("\nno longer supervising; runs continue in Azure", file=sys.stderr)
        return INTERRUPTED
