"""`python -m jobs`: the command line, see `jobs.cli`."""

import sys


def run() -> None:
    """Run a command and exit with its status."""
    try:
        # Imported here so that Ctrl-C during the import is handled, too.
        from jobs.cli import main  # noqa: PLC0415

        status = main()
    except KeyboardInterrupt:
        from common.errors import INTERRUPTED  # noqa: PLC0415

        print("interrupted", file=sys.stderr)
        status = INTERRUPTED
    sys.exit(status)


if __name__ == "__main__":
    run()
