"""A debugger that attaches to a rank."""

import json
import socket


class Client:
    """A debugger: the part of the Debug Adapter Protocol that attaches and continues."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._file = self._socket.makefile("rb")
        self._number = 0

    def request(self, command, **arguments):
        self._number += 1
        message = {"seq": self._number, "type": "request", "command": command}
        text = json.dumps({**message, "arguments": arguments}).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))

    def wait_for(self, kind, name):
        """Return the body of the next event, or response to a command, of this name."""
        while True:
            headers = iter(self._file.readline, b"\r\n")
            size = next(int(line.split(b":")[1]) for line in list(headers) if b"Length" in line)
            message = json.loads(self._file.read(size))
            if message["type"] == kind and name in (message.get("event"), message.get("command")):
                assert message.get("success", True), message
                return message.get("body") or {}

    def attach(self):
        self.request("initialize", adapterID="test", clientID="test")
        self.wait_for("response", "initialize")
        self.request("attach", justMyCode=False)
        self.wait_for("event", "initialized")
        self.request("configurationDone")
        self.wait_for("response", "attach")

    def close(self):
        self._file.close()
        self._socket.close()
