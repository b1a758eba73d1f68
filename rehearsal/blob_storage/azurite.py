"""The blob server: Azurite, in a separate process."""

import base64
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path

from common.waiting import wait_until
from rehearsal.control_plane.https_server import Certificate
from rehearsal.errors import RehearsalError
from rehearsal.lifetime import Reaper

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0


class Azurite:
    """A blob server whose account keys no other process knows.

    Azurite reads its accounts at start-up only, so the process is restarted when an account is
    first used that it does not know.
    """

    def __init__(
        self, installed: Path, folder: Path, certificate: Certificate, reaper: Reaper
    ) -> None:
        """Prepare the server without starting it.

        Args:
            installed: Folder of the npm package.
            folder: Folder for the blobs.
            certificate: Certificate for HTTPS, without which Azurite accepts no tokens.
            reaper: Ends the process if the owner dies.
        """
        self.port = free_port()
        self._program = installed / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
        self._folder = folder
        self._certificate = certificate
        self._reaper = reaper
        self._keys: dict[str, str] = {}
        self._served: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_down = False
        self._lock = threading.RLock()

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_down(self) -> bool:
        """Whether the server was taken down, until `start`."""
        return self._is_down

    def endpoint(self, account: str) -> str:
        """Return the address of an account's blobs on the server itself."""
        return f"https://127.0.0.1:{self.port}/{account}"

    def add_account(self, account: str, key: str | None = None) -> str:
        """Add an account unless it exists; return its key."""
        with self._lock:
            made = key or base64.b64encode(secrets.token_bytes(64)).decode()
            return self._keys.setdefault(account, made)

    def key(self, account: str) -> str:
        """Return the key of an account, and serve the account from now on.

        Raises:
            KeyError: there is no such account.
        """
        with self._lock:
            key = self._keys[account]
            if not self._is_down and (account not in self._served or not self.running):
                self._stop()
                self._start()
            return key

    def ensure(self, account: str) -> None:
        """Start the server if it does not serve the account, unless it was taken down."""
        with self._lock:
            if account in self._keys:
                self.key(account)

    def kill(self) -> None:
        """Take the server down, and keep it down until `start`.

        The process is asked to stop: killed, Azurite would lose data that it has not written yet,
        which Azure never does.
        """
        with self._lock:
            self._is_down = True
            self._stop()

    def crash(self) -> None:
        """Kill the server without asking it to stop: it loses the last seconds of data that it has
        accepted but not written. It stays down until `start`.
        """
        with self._lock:
            self._is_down = True
            self._stop(signal.SIGKILL)

    def start(self) -> None:
        """Start the server again, with its data."""
        with self._lock:
            self._is_down = False
            if not self.running:
                self._start()

    def close(self) -> None:
        """Stop the server for good."""
        with self._lock:
            self._is_down = True
            self._stop()

    def _start(self) -> None:
        node = shutil.which("node")
        if node is None or not self._program.is_file():
            raise RehearsalError(
                f"{self._program}: the blob server is not installed, or node is not on the PATH;"
                " see docs/rehearse-without-azure.md"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        accounts = ";".join(f"{name}:{key}" for name, key in self._keys.items())
        log = (self._folder / "azurite.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [
                    node, str(self._program), "--blobHost", "127.0.0.1",
                    "--blobPort", str(self.port),
                    "--blobKeepAliveTimeout", "60", "--location", str(self._folder),
                    "--cert", str(self._certificate.certificate),
                    "--key", str(self._certificate.key), "--oauth", "basic",
                    "--skipApiVersionCheck", "--disableTelemetry", "--disableProductStyleUrl",
                    "--loose", "--silent",
                ],
                env=self._reaper.marked({"PATH": os.defpath, "AZURITE_ACCOUNTS": accounts}),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._wait()
        self._served = set(self._keys)

    def _wait(self) -> None:
        wait_until(lambda: not self.running or self._listens(), _START_SECONDS, 0.02)
        if not self.running or not self._listens():
            raise RehearsalError(
                f"the blob server did not start; see {self._folder / 'azurite.log'}"
            )

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """Return a free port on loopback."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
