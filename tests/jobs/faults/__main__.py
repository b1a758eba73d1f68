"""Run the fault matrix, and write docs/reference/faults.md: `python -m tests.jobs.faults`."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.jobs.faults import matrix, table


def main(arguments: Sequence[str]) -> int:
    """Write the tables, and print the faults; return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.jobs.faults", description=__doc__)
    parser.add_argument("commands", nargs="*", help="commands to run; default: all")
    asked = parser.parse_args(arguments).commands
    wrong = False
    with tempfile.TemporaryDirectory() as folder, matrix.world(Path(folder)) as world:
        for command in asked or world.commands:
            began, used = time.perf_counter(), time.process_time()
            cells = list(world.cells(command))
            outcomes = Counter(cell.outcome for cell in cells)
            took = f"{time.perf_counter() - began:.0f} s, {time.process_time() - used:.0f} s of CPU"
            print(f"{command}: {len(cells)} cells, {dict(outcomes)} in {took}", flush=True)
            for cell in cells:
                if cell.why:
                    wrong = True
                    print(f"  {cell.kind}, {cell.fault}: {cell.why}\n{cell.said}", file=sys.stderr)
            table.write([command], cells)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
