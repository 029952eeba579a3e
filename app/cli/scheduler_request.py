"""`vmscaler scheduler request`: ask a live scheduler for a permit by hand (`spec/scheduler-protocol.md`)."""

from __future__ import annotations

import click

from app.cli.amounts import CpuType, MemoryType, PeerUrl, UrlType
from app.cli.by_hand import Answer, Asking, asking_options
from app.cli.shapes import size_shape
from app.core.resources import Resources, resources
from app.core.state import unit_problem
from app.errors import InvalidInput, PeerRefused
from app.protocols.quantity import format_milli_cpu
from app.protocols.scheduler import (
    MAX_NAME_LENGTH,
    MAX_SLOTS,
    PLUGIN_PROTOCOL_VERSION,
    PermitResponse,
    ProtocolVersion,
    decode_response,
    encode_request,
)

DEFAULT_PORT = 10299
_VERSIONS = {str(version): version for version in ProtocolVersion}


class PodType(click.ParamType[tuple[str, str]]):
    """`NS/NAME`."""

    name = "NS/NAME"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """See `click.ParamType.convert`."""
        namespace, _, name = str(value).partition("/")
        if not all(0 < len(part) <= MAX_NAME_LENGTH for part in (namespace, name)) or "/" in name:
            self.fail("write NAMESPACE/NAME", param, ctx)
        return namespace, name


@click.command("request")
@click.argument("url", type=UrlType("http", DEFAULT_PORT))
@click.option("--pod", type=PodType(), required=True, help="Whom it is for.")
@click.option("--cpu", "milli_cpu", type=CpuType(), required=True, help="CPUs: 2, 1.5, 250m.")
@click.option("--memory-slots", type=click.IntRange(1, MAX_SLOTS), required=True, help="Memory, in slots.")
@click.option(
    "--protocol",
    type=click.Choice(list(_VERSIONS)),
    default=str(PLUGIN_PROTOCOL_VERSION),
    show_default=True,
    help="What to speak.",
)
@click.option(
    "--slot-size",
    "slot_bytes",
    type=MemoryType(),
    default="1Gi",
    show_default=True,
    help="Of the VM; from v4.0 on memory is told in bytes.",
)
@asking_options
def request_command(
    url: PeerUrl,
    pod: tuple[str, str],
    milli_cpu: int,
    memory_slots: int,
    protocol: str,
    slot_bytes: int,
    asking: Asking,
) -> int:
    """Ask the scheduler at URL for a permit.

    It is a request as any other: what is granted is reserved, and a smaller size than before gives the rest
    back. No fencing token is sent. Exit status: 0 granted whole, 1 refused, granted in part, or the VM is
    about to migrate, 2 wrong usage, 3 not reached, 4 no answer in time.
    """
    version = _VERSIONS[protocol]
    target = resources(milli_cpu, memory_slots)

    def ask() -> Answer:
        return _ask(url, version, pod, target, slot_bytes, asking)

    return asking.run("request", str(url), ask)


def _ask(
    url: PeerUrl,
    version: ProtocolVersion,
    pod: tuple[str, str],
    target: Resources,
    slot_bytes: int,
    asking: Asking,
) -> Answer:
    """One request. Raises PeerError."""
    # `vmscaler scheduler` imports this module before it makes the standard library cooperative.
    from app.adapters.scheduler_http import DEFAULT_COMPUTE_UNIT, SchedulerHttp

    body = encode_request(
        version,
        pod,
        target,
        last_permit=None,
        compute_unit=DEFAULT_COMPUTE_UNIT,
        metrics=None,
        slot_bytes=slot_bytes,
    )
    asking.trace.sent(body, f"POST {url.path or '/'}")
    client = SchedulerHttp(version, bearer=asking.token, tls=asking.tls(url))
    try:
        data = client.request(str(url), body, timeout_s=asking.timeout_s, token=None)
    except PeerRefused as err:
        asking.trace.received(b"", err.problem)
        raise
    finally:
        client.close()
    asking.trace.received(data, "200")
    try:
        response = decode_response(data, version, target=target, slot_bytes=slot_bytes)
    except InvalidInput as err:
        raise PeerRefused(str(url), f"an unusable answer: {err}") from err
    return _answer(response, target, slot_bytes)


def _answer(response: PermitResponse, target: Resources, slot_bytes: int) -> Answer:
    permit = response.permit
    is_whole = permit.cpu >= target.cpu and permit.mem >= target.mem
    text = f"granted {_size(permit)}" + ("" if is_whole else f" of {_size(target)}")
    if response.is_migrating:
        text += "; the VM is about to migrate, its size must not change"
    problem = _problem(response, target)
    if problem:
        text += f"; an agent refuses that: {problem}"
    facts = {
        "asked": size_shape(target, slot_bytes),
        "permit": size_shape(permit, slot_bytes),
        "compute_unit": size_shape(response.compute_unit, slot_bytes),
        "migrating": response.is_migrating,
    }
    return Answer(is_whole and not response.is_migrating and not problem, text, facts)


def _problem(response: PermitResponse, target: Resources) -> str:
    """What an agent would not take of this answer, whatever its VM's size is (`spec/core.md`)."""
    if response.permit.has_field_above(target):
        return f"it is above the {_size(target)} asked for"
    unit = response.compute_unit
    problem = None if unit is None else unit_problem(unit)
    return "" if problem is None else f"the compute unit {problem}"


def _size(amount: Resources) -> str:
    return f"{format_milli_cpu(amount.cpu)} CPU, {amount.mem} slots"
