"""`vmscaler informant register|unregister|upscale|downscale`: ask the informant in a VM by hand.

Source of the rules: `spec/informant.md`.
"""

from __future__ import annotations

import threading
import uuid

import click

from app.cli.amounts import CpuType, MemoryType, PeerUrl, SecondsType, UrlType
from app.cli.by_hand import Answer, Asking, asking_options
from app.cli.informant_asking import ask_informant, read_answer
from app.cli.server_options import Listening, read_callers
from app.errors import InvalidInput
from app.protocols.informant import (
    PROTOCOL_VERSION,
    AgentDesc,
    RawResources,
    decode_downscale_result,
    decode_unregistered,
    encode_agent_desc,
    encode_resources,
    parse_address,
)

DEFAULT_PORT = 10301
DEFAULT_CPU = "1"
"""Informants decide by memory alone."""
LONGEST_S = 366 * 86_400.0

_url = click.argument("url", type=UrlType("http", DEFAULT_PORT))
_cpu = click.option(
    "--cpu", "milli_cpu", type=CpuType(), default=DEFAULT_CPU, show_default=True, help="CPUs: 2, 1.5, 250m."
)
_memory = click.option("--memory", type=MemoryType(), required=True, help="The whole size: 4Gi, bytes.")


GRACE_S = 20.0
"""For unregistering, from the first signal on."""


@click.group("informant")
def informant_group() -> None:
    """Ask the informant in a VM, at http://HOST:10301.

    Exit status: 0 yes, 1 no, 2 wrong usage, 3 not reached, 4 no answer in time.
    """


@informant_group.command("register")
@_url
@click.option(
    "--serve",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Where the informant calls us back; port 0 is a free one.",
)
@click.option(
    "--for", "stay_s", type=SecondsType(LONGEST_S), help="End after 30s, 10m …; else at Ctrl-C or SIGTERM."
)
@click.option("--agent-id", type=click.UUID, help="Who we are; else a new uuid.")
@click.option("--allow", multiple=True, metavar="CIDR", help="Who may call us there; else everyone.")
@asking_options
def register_command(
    url: PeerUrl,
    serve: str,
    stay_s: float | None,
    agent_id: uuid.UUID | None,
    allow: tuple[str, ...],
    asking: Asking,
) -> int:
    """Be an agent of the informant at URL for as long as this runs.

    The informant makes the newest agent the current one, and suspends the one before until we go. Answers
    its checks, says when we are resumed and suspended, and unregisters at the end. With --json an object a
    line. Exit status: 0 registered and unregistered, 1 refused or dropped.
    """
    listening = Listening(*_serve_address(serve), read_callers(allow))
    # Clients are loaded after the patch: their locks and sockets must be cooperative ones.
    from app.web.server import on_termination, patch_process

    patch_process()
    from app.cli.informant_session import run_session

    stop = threading.Event()
    on_termination(stop.set, GRACE_S)
    return run_session(url, listening, str(agent_id or uuid.uuid4()), asking, stop, stay_s)


@informant_group.command("unregister")
@_url
@click.option("--agent-id", type=click.UUID, required=True, help="Whom.")
@click.option("--address", required=True, metavar="HOST:PORT", help="As it was registered.")
@asking_options
def unregister_command(url: PeerUrl, agent_id: uuid.UUID, address: str, asking: Asking) -> int:
    """Unregister an agent from the informant at URL, from the host that it is on."""
    try:
        parse_address(address)
    except InvalidInput as err:
        raise click.BadParameter(err.problem, param_hint="--address") from err
    desc = AgentDesc(str(agent_id), address, PROTOCOL_VERSION, PROTOCOL_VERSION)

    def ask() -> Answer:
        body = ask_informant(url, "DELETE", "/unregister", encode_agent_desc(desc), asking)
        was_active = read_answer(url, decode_unregistered, body)
        text = "unregistered; it was the current agent" if was_active else "unregistered"
        return Answer(True, text, {"was_active": was_active})

    return asking.run("unregister", str(url), ask)


@informant_group.command("upscale")
@_url
@_cpu
@_memory
@asking_options
def upscale_command(url: PeerUrl, milli_cpu: int, memory: int, asking: Asking) -> int:
    """Tell the informant at URL that the VM has that size now.

    It answers hosts only that have a registered agent: see `register`.
    """

    def ask() -> Answer:
        body = encode_resources(RawResources(milli_cpu, memory))
        ask_informant(url, "PUT", "/upscale", body, asking)
        return Answer(True, "it has taken note", {})

    return asking.run("upscale", str(url), ask)


@informant_group.command("downscale")
@_url
@_cpu
@_memory
@asking_options
def downscale_command(url: PeerUrl, milli_cpu: int, memory: int, asking: Asking) -> int:
    """Ask the informant at URL whether the VM may have that size.

    It answers hosts only that have a registered agent: see `register`.
    """

    def ask() -> Answer:
        body = encode_resources(RawResources(milli_cpu, memory))
        result = ask_informant(url, "PUT", "/downscale", body, asking)
        is_allowed, status = read_answer(url, decode_downscale_result, result)
        return Answer(is_allowed, status, {})

    return asking.run("downscale", str(url), ask)


@informant_group.command("list")
@click.option("--json", "is_json", is_flag=True, help="One JSON document.")
@click.pass_context
def list_command(context: click.Context, is_json: bool) -> None:
    """The agents that this fleet's workers are towards informants (setting informant.register).

    In the order of their registration: of two agents of a VM the later one is the current one.
    """
    # Imported here: the others need neither Redis' client nor the configuration.
    from app.cli.informant_agents import show_agents

    show_agents(context, is_json=is_json)


def _serve_address(text: str) -> tuple[str, int]:
    """Host and port to listen on; the informant is told the host, so it must be one that it can call."""
    host, _, port = text.rpartition(":")
    is_free = port == "0"
    try:
        found = parse_address(f"{host}:{1 if is_free else port}")
    except InvalidInput as err:
        raise click.BadParameter(err.problem, param_hint="--serve") from err
    if found[0] in ("0.0.0.0", "::"):  # noqa: S104 - refused
        raise click.BadParameter("name the address at which the VM reaches us", param_hint="--serve")
    return found[0], 0 if is_free else found[1]
