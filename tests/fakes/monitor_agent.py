"""An agent's end of a guest's vm-monitor, by hand."""

from __future__ import annotations

import json
import time

import pytest
import websocket

GIB = 1024**3


class MonitorAgent:
    """Connected to a monitor on loopback."""

    def __init__(self, port: int, *, shakes_hands: bool = True) -> None:
        self.socket = websocket.create_connection(f"ws://127.0.0.1:{port}/monitor", timeout=60)
        self._next = 0
        if shakes_hands:
            self.socket.send('{"min": 1, "max": 1}')
            assert json.loads(self.socket.recv()) == {"version": 1}

    def send(self, kind: str, **content: object) -> int:
        """Its number."""
        self._next += 2
        self.socket.send(json.dumps({"content": content, "type": kind, "id": self._next}))
        return self._next

    def receive(self) -> dict[str, object]:
        """The next message, whatever it is."""
        found: dict[str, object] = json.loads(self.socket.recv())
        return found

    def ask(self, kind: str, **content: object) -> dict[str, object]:
        """The answer, which must be the next message."""
        number = self.send(kind, **content)
        answer = self.receive()
        assert answer["id"] == number
        return answer

    def downscale(self, mem: int) -> dict[str, object]:
        """The answer."""
        return self.ask("DownscaleRequest", target={"cpu": 1.0, "mem": mem})

    def upscale(self, mem: int) -> dict[str, object]:
        """The answer."""
        return self.ask("UpscaleNotification", granted={"cpu": 2.5, "mem": mem})

    def close_code(self) -> int:
        """Of the close frame that comes in the end."""
        while True:
            opcode, data = self.socket.recv_data()
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                return int.from_bytes(data[:2], "big")

    def wait_for_samples(self, mem: int = 8 * GIB) -> int:
        """Until a downscale that needs nothing of memory is allowed; how many were not."""
        for refused in range(3_000):
            if self.downscale(mem)["Ok"]:
                return refused
            time.sleep(0.01)
        pytest.fail("never enough samples")
