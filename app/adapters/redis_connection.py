"""One pool of connections to Redis: time limits, scripts, errors turned into `StoreUnavailable`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import redis
from redis.exceptions import NoScriptError, RedisError, TimeoutError

from app.adapters.redis_access import SOCKET_TIMEOUT_S, redis_access
from app.config.redis_section import RedisSettings
from app.errors import StoreUnavailable
from app.ports.own_metrics import REDIS_TRIPS

Argument = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua file: its text, and the digest that Redis knows it by."""

    text: str
    digest: str


def load_script(name: str) -> Script:
    """The script in `app/adapters/lua/<name>.lua`."""
    text = files("app.adapters").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


class RedisConnection:
    """Talks to one Redis; shared by many greenlets. Nothing is connected until the first call.

    Nothing is sent twice by itself: a call that was not answered may have taken effect, and every caller
    has a next round.

    Args:
        where: the configuration's section, or a plain address; a password is in no error text.

    Raises:
        ConfigurationError: the address or a file of the configuration can't be read.
    """

    def __init__(self, where: RedisSettings | str, *, socket_timeout_s: float = SOCKET_TIMEOUT_S) -> None:
        access = redis_access(where)
        self.peer = access.peer
        self._pool = access.pool(socket_timeout_s=socket_timeout_s, protocol=2)
        self._client: Any = redis.Redis(connection_pool=self._pool)
        # Answers as Redis sends them, whatever the library makes of each command.
        self._client.response_callbacks.clear()

    def run(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Any:
        """Run a script: one atomic step, one round trip (two the first time).

        Raises:
            StoreUnavailable: no answer, or Redis refused; it may have taken effect.
        """
        rest = (len(keys), *keys, *arguments)
        try:
            return self._timed("script", "EVALSHA", script.digest, *rest)
        except NoScriptError:
            return self.execute("EVAL", script.text, *rest)
        except (RedisError, OSError) as err:
            raise self._unavailable(err) from err

    def execute(self, *command: Argument) -> Any:
        """One command. Raises StoreUnavailable as `run` does."""
        try:
            return self._timed("command", *command)
        except (RedisError, OSError) as err:
            raise self._unavailable(err) from err

    def execute_all(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Several commands as one transaction, one round trip. Raises StoreUnavailable as `run` does."""
        began, result = time.monotonic(), "failed"
        try:
            with self._client.pipeline(transaction=True) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                answers = list(pipeline.execute(raise_on_error=False))
            result = "ok"
        except (RedisError, OSError) as err:
            raise self._unavailable(err) from err
        finally:
            REDIS_TRIPS.observe(time.monotonic() - began, "transaction", result)
        for answer in answers:
            if isinstance(answer, RedisError):
                raise self._unavailable(answer)
        return answers

    def _timed(self, kind: str, *command: Argument) -> Any:
        began, result = time.monotonic(), "failed"
        try:
            answer = self._client.execute_command(*command)
            result = "ok"
            return answer
        except NoScriptError:
            result = "ok"  # an answer, if not the one that was hoped for
            raise
        finally:
            REDIS_TRIPS.observe(time.monotonic() - began, kind, result)

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self._pool.disconnect()

    def _unavailable(self, err: Exception) -> StoreUnavailable:
        if isinstance(err, TimeoutError):
            # Others that lie idle may be as dead: each would cost the next caller as long.
            self._pool.disconnect(inuse_connections=False)
        # The library may put the command before the error, and with it a record.
        lines = str(err).rpartition("of pipeline caused error: ")[2].splitlines()
        text = lines[0][:200] if lines else ""
        return StoreUnavailable(self.peer, text or type(err).__name__)


def pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """What Redis answers as one list of a1, b1, a2, b2, … (hashes, members with scores)."""
    return zip(flat[::2], flat[1::2], strict=True)


def now_ms(time_reply: Sequence[bytes]) -> int:
    """Unix milliseconds from the answer to TIME."""
    return int(time_reply[0]) * 1000 + int(time_reply[1]) // 1000
