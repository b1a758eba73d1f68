"""`python -m jobs`: the command line, see `jobs.cli`."""

import sys

if __name__ == "__main__":
    try:
        # Imported here so that Ctrl-C during the import is handled, too.
        from jobs.cli import main

        status = main()
    except KeyboardInterrupt:
        from common.errors import INTERRUPTED

        print("interrupted", file=sys.stderr)
        status = INTERRUPTED
    sys.exit(status)
