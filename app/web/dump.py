"""`GET /` of the state dump's port (`spec/agent.md`, "State dump").

200 with the dump; 500 with a text where nothing could be had in time. Ours: `?vm=NAMESPACE/NAME` and
`?bucket=NAME` give that part only.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from app.ports.runtime import Concurrency
from app.ports.store import BucketName
from app.ports.vm import VmKey
from app.services.state_dump import DumpTimedOut, StateDump
from app.web.replies import Reply, text_reply
from app.web.worker import WorkerApplication

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

MAX_QUERY = 2_000
"""Characters; a VM's name and a bucket's have far fewer."""


def dump_application(dump: StateDump, concurrency: Concurrency) -> WorkerApplication:
    """The one page; each connection ends with its answer, so that few are ever open."""

    def get(environ: WSGIEnvironment) -> Reply:
        return replace(_answer(dump, concurrency, environ.get("QUERY_STRING") or ""), is_last=True)

    application = WorkerApplication()
    application.add("GET", "/", get)
    return application


def _answer(dump: StateDump, concurrency: Concurrency, query: str) -> Reply:
    try:
        asked = parse_qs(
            query[:MAX_QUERY], keep_blank_values=True, strict_parsing=bool(query), max_num_fields=2
        )
    except ValueError:
        asked = {"?": [""]}
    if (
        len(query) > MAX_QUERY
        or set(asked) - {"vm", "bucket"}
        or any(len(each) > 1 for each in asked.values())
    ):
        return text_reply(HTTPStatus.BAD_REQUEST, "only vm=NAMESPACE/NAME and bucket=NAME may be asked for")
    vm, bucket = asked.get("vm"), asked.get("bucket")
    try:
        body = dump.collect(
            concurrency,
            None if vm is None else VmKey(vm[0]),
            None if bucket is None else BucketName(bucket[0]),
        )
    except DumpTimedOut as err:
        return text_reply(HTTPStatus.INTERNAL_SERVER_ERROR, f"no state dump: {err}")
    return Reply(HTTPStatus.OK, body, "application/json")
