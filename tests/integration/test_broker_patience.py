"""A worker whose broker is away goes on with everything else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

import pytest
from kombu import Connection
from kombu.exceptions import OperationalError

from app.config.loading import load_settings
from workers.broker import transport_options
from workers.transport import SturdyChannel

_LAUNCH = """
import sys
sys.argv = ["celery", "-A", "workers", "worker", "-P", "gevent"]
from celery import maybe_patch_concurrency
maybe_patch_concurrency()
import workers, time
from kombu.utils import functional
print(functional.sleep is time.sleep, time.sleep.__module__)
"""


def test_a_pause_between_two_attempts_to_connect_stops_nothing_else() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CONFIG_PATH"}
    done = subprocess.run(
        [sys.executable, "-c", _LAUNCH],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["True", "gevent.hub"]


def test_a_send_tries_to_connect_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller has a next turn; by default kombu would try again and again for seconds."""
    monkeypatch.setattr(SturdyChannel, "access", None)
    attempts = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                attempts.append(1)
                connection.close()

        threading.Thread(target=refuse, daemon=True).start()
        options = transport_options(load_settings(None, {}), with_password=False)
        url = f"redis://127.0.0.1:{server.getsockname()[1]}/0"
        with Connection(url, transport_options=options) as connection, pytest.raises(OperationalError):
            connection.default_channel.client.ping()
        server.shutdown(socket.SHUT_RDWR)
    assert len(attempts) == 1
