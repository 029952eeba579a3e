"""The exchange on the scheduler protocol's page is what our agent and our scheduler say to each other."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

from app.core.model import Metrics
from app.core.resources import Resources, resources
from app.protocols.scheduler import (
    Amount,
    PermitRequest,
    ProtocolVersion,
    decode_request,
    decode_response,
    encode_request,
)
from app.web.scheduler import SchedulerApplication
from tests.fakes.scheduler_fleet import GIB, machine, node_scheduler, whole

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol-scheduler.md"
UNIT = resources(250, 1)


def exchange() -> Iterator[str]:
    found = re.search(r"```exchange\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    lines = found[1].splitlines()
    assert len(lines) > 20
    yield from lines


def new_application() -> SchedulerApplication:
    moving = machine("c", migrating=True, most=resources(1000, 1))
    return SchedulerApplication(
        node_scheduler(whole(machine("a"), machine("b"), moving), cpu=6000, gib=8), UNIT
    )


def post(application: SchedulerApplication, body: bytes, token: str | None) -> tuple[int, str]:
    statuses: list[str] = []
    environ: dict[str, object] = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "wsgi.input": io.BytesIO(body),
    }
    if token is not None:
        environ["HTTP_X_VMSCALER_TOKEN"] = token
    answer = b"".join(application(environ, lambda status, headers: statuses.append(status)))  # type: ignore[arg-type]
    return int(statuses[0].split()[0]), answer.decode()


def in_slots(amount: Amount, version: ProtocolVersion) -> Resources:
    return amount.in_slots(version, GIB)


def spoken_by_our_agent(request: PermitRequest, metrics: Metrics) -> bytes:
    """What our agent would send for this."""
    last = request.last_permit
    return encode_request(
        request.version,
        (request.namespace, request.name),
        in_slots(request.target, request.version),
        last_permit=None if last is None else in_slots(last, request.version),
        compute_unit=UNIT,
        metrics=metrics,
        slot_bytes=GIB,
    )


def test_the_page_of_the_scheduler_protocol_is_what_both_sides_say() -> None:
    application = new_application()
    answer: tuple[int, str] | None = None
    asked: PermitRequest | None = None
    for line in exchange():
        if line == "scheduler restarts":
            application = new_application()
        elif found := re.fullmatch(r"agent → scheduler  POST /( token=(\d+))? (\{.*\})", line):
            body = json.loads(found[3])
            asked = None
            if body["protoVersion"] in set(ProtocolVersion):
                asked = decode_request(found[3].encode())
                load = Metrics(0.5, 0.4, 1.5e9)
                assert json.loads(spoken_by_our_agent(asked, load)) == body, line
            answer = post(application, found[3].encode(), found[2])
        else:
            found = re.fullmatch(r"scheduler → agent  (\d+) (.*)", line)
            assert found is not None, line
            assert answer is not None, line
            assert answer[0] == int(found[1]), line
            if answer[0] == 200:
                assert json.loads(answer[1]) == json.loads(found[2]), line
                assert asked is not None
                target = in_slots(asked.target, asked.version)
                permit = decode_response(
                    answer[1].encode(), asked.version, target=target, slot_bytes=GIB
                ).permit
                assert permit.min(target) == permit
            else:
                assert answer[1] == found[2], line
            answer = None
    assert answer is None
