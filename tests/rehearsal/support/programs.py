"""Programs that stand in for those of the machine."""

import stat


def only_programs(folder, monkeypatch, **programs):
    """Put these programs alone on the path, and what starts others.

    Args:
        folder: for the programs.
        monkeypatch: of the test.
        programs: lines of shell by name.
    """
    (folder / "env").symlink_to("/usr/bin/env")
    for name, body in programs.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))
