"""`vmscaler guest metrics` as a process."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import requests

_COMMAND = [sys.executable, "-c", "import sys; from app.guest.main import main; sys.exit(main(sys.argv[1:]))"]


def test_the_page_of_this_machine_is_served_until_sigterm() -> None:
    command = [*_COMMAND, "metrics", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        url = line.removeprefix("listening on ")
        try:
            assert url.startswith("http://127.0.0.1:")
            assert url.endswith("/metrics")
            page = requests.get(url, timeout=30)
            assert page.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert "\nnode_load1 " in page.text
            assert "\nnode_memory_MemAvailable_bytes " in page.text
            assert requests.get(url.replace("/metrics", "/nothing"), timeout=30).status_code == 404
            assert requests.post(url, timeout=30).status_code == 405
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_an_address_in_use_is_one_line_and_status_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [*_COMMAND, "metrics", "--listen", address],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert address in done.stderr


def test_the_guest_imports_no_control_plane_and_no_pydantic() -> None:
    script = (
        "import sys, app.guest.main; "
        "heavy = ('pydantic', 'celery', 'redis', 'requests', 'click', "
        "'app.services', 'app.adapters', 'app.core'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
