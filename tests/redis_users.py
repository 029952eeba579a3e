"""A Redis with the users of compose/redis/users.acl, each with a password, and one who may do everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.redis_server import TcpRedis

USERS_FILE = Path(__file__).parents[1] / "compose" / "redis" / "users.acl"
ROLES = ("worker", "beat", "scheduler", "flower", "reader", "operator")


def password_of(role: str) -> str:
    """The password that a role has in tests."""
    return f"a-secret-of-{role}-in-tests"


class RedisWithUsers(TcpRedis):
    """The server; nobody gets in without a user and a password."""

    def __init__(self, directory: Path, options: dict[str, str] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._secrets = directory
        lines = []
        for line in USERS_FILE.read_text().splitlines():
            role = line.split()[1]
            lines.append(line if role == "default" else f"{line} >{password_of(role)}")
        lines.append(f"user root on >{password_of('root')} ~* &* +@all")
        acl = directory / "users.acl"
        acl.write_text("\n".join(lines) + "\n")
        super().__init__(directory, {"aclfile": str(acl), **(options or {})})

    def client(self, **options: Any) -> Any:
        """A client that takes a refused login for an answer; redis-py would try again for seconds."""
        return super().client(**{"retry": Retry(NoBackoff(), 0), **options})

    def of(self, role: str) -> Any:
        """A client of redis-py, logged in."""
        return self.client(username=role, password=password_of(role))

    def section(self, role: str) -> dict[str, Any]:
        """The configuration's section about Redis for a process of that role."""
        file = self._secrets / f"{role}.password"
        file.write_text(password_of(role) + "\n")
        return {"url": f"redis://{role}@127.0.0.1:{self.port}/0", "passwordFile": str(file)}

    def denials(self) -> set[tuple[str, str]]:
        """User and command or key of everything that was refused; what redis-py says of itself left out."""
        found = self.of("root").acl_log()
        return {(entry["username"], entry["object"]) for entry in found if entry["object"] != "client"}
