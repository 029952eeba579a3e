"""Names of all keys in Redis, one function per kind.

A bucket's keys share its name as the tag in braces, so that they would stay together in a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RedisKeys:
    """Key names of one fleet.

    Attributes:
        prefix: what all of them begin with (`redis.prefix`, the node's name included where it counts).
    """

    prefix: str = "vmscaler"

    def total(self) -> str:
        """String: the number of buckets in force."""
        return f"{self.prefix}:buckets"

    def epoch(self) -> str:
        """Hash: `run` and `replid`, the server's run and replication ids; `since_ms`, when first seen."""
        return f"{self.prefix}:epoch"

    def heartbeats(self) -> str:
        """Sorted set: agent ids by Redis' time of their last lease round, Unix ms."""
        return f"{self.prefix}:agents:heartbeats"

    def agents(self) -> str:
        """Hash by agent id: time of the last publication, a space, the facts."""
        return f"{self.prefix}:agents"

    def agents_until(self) -> str:
        """Sorted set: agent ids by the time at which their facts end."""
        return f"{self.prefix}:agents:until"

    def agents_seen(self) -> str:
        """Sorted set: agent ids by the time of their last publication, Unix ms."""
        return f"{self.prefix}:agents:seen"

    def agents_order(self) -> str:
        """Sorted set: agent ids by their numbers in the order of registration."""
        return f"{self.prefix}:agents:order"

    def informants(self) -> str:
        """Hash by agent id: what the agents that workers are towards informants are, as JSON."""
        return f"{self.prefix}:informants"

    def informants_order(self) -> str:
        """Sorted set: ids of those whose check has succeeded, by their places in that order."""
        return f"{self.prefix}:informants:order"

    def informants_numbers(self) -> str:
        """Hash by agent id: the highest sequence number that was seen of it."""
        return f"{self.prefix}:informants:numbers"

    def informants_seen(self) -> str:
        """Sorted set: agent ids by the time of their last heartbeat, Unix ms."""
        return f"{self.prefix}:informants:seen"

    def drains(self) -> str:
        """Hash by agent id of workers that are to hand over everything: when, a space, a note as JSON."""
        return f"{self.prefix}:agents:drains"

    def lease(self, bucket: str) -> str:
        """Hash: `token` stays; `identity`, `agent`, `acquired_ms`, `renewed_ms`, `until_ms` while held."""
        return self._of(bucket, "lease")

    def fence(self, bucket: str) -> str:
        """String: the highest token seen; a write with a lower one is refused."""
        return self._of(bucket, "fence")

    def state(self, bucket: str) -> str:
        """Hash by VM key: its record."""
        return self._of(bucket, "state")

    def deleted(self, bucket: str, vm: str) -> str:
        """String: the last record of a deleted VM, until its retention ends."""
        return self._of(bucket, f"deleted:{vm}")

    def events(self, bucket: str, vm: str) -> str:
        """Stream: a VM's audit trail."""
        return self._of(bucket, f"events:{vm}")

    def seq(self, bucket: str) -> str:
        """Hash: `seq` and `ms` of the bucket's last turn."""
        return self._of(bucket, "seq")

    def intents(self, bucket: str) -> str:
        """Hash by kind and target: when the intent ends (0: never), a space, the intent as JSON."""
        return self._of(bucket, "intents")

    def stats(self, bucket: str) -> str:
        """List: stats that wait for the bucket's owner, oldest first; there until they have their fate."""
        return self._of(bucket, "stats")

    def billing(self, bucket: str) -> str:
        """Hash by VM key, uid and endpoint id (as JSON): meters; `step`; `sent:<sink>`: events that left."""
        return self._of(bucket, "billing")

    def billing_outbox(self, bucket: str, sink: str) -> str:
        """List: billing events that wait for the sink, oldest first."""
        return self._of(bucket, f"billing:outbox:{sink}")

    def recording(self, bucket: str, vm: str, recording: str) -> str:
        """Stream: pieces of a recording on their way to whoever asked for it."""
        return self._of(bucket, f"recording:{vm}:{recording}")

    def _of(self, bucket: str, what: str) -> str:
        return f"{self.prefix}:{{{bucket}}}:{what}"
