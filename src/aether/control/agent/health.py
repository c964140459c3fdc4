"""Which local pods may take traffic: liveness and inbound readiness, looked at again and again (spec section 10).

A pod is healthy once its containers are ready, its application answers on its liveness port, and its inbound listener
accepted the prober's certificate. It is unhealthy again after `FAILURES` looks in a row that say otherwise, and at once
when its containers are not ready.
"""

from collections.abc import Iterable

import msgspec

FAILURES = 3
"""Looks in a row that must fail before a healthy pod is taken out: one slow answer is not a death."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What one look at one pod found. `is_inbound_ready` is None while the proxy, just started, cannot say."""

    uid: str
    is_ready: bool
    is_live: bool
    is_inbound_ready: bool | None

    @property
    def is_good(self) -> bool:
        return self.is_ready and self.is_live and self.is_inbound_ready is True

    @property
    def is_undecided(self) -> bool:
        """Nothing speaks against the pod, and the proxy cannot say."""
        return self.is_ready and self.is_live and self.is_inbound_ready is None


class HealthBook:
    """Remembers what the looks found; says who is healthy."""

    def __init__(self) -> None:
        self._healthy: set[str] = set()
        self._failures: dict[str, int] = {}
        self.last: dict[str, Look] = {}

    @property
    def healthy(self) -> frozenset[str]:
        return frozenset(self._healthy)

    def failing(self, *, looks: int) -> tuple[Look, ...]:
        """Pods whose last `looks` looks or more were all bad, with the last of them, sorted."""
        return tuple(self.last[uid] for uid, count in sorted(self._failures.items()) if count >= looks)

    def assume(self, uids: Iterable[str]) -> None:
        """Start with these as healthy, before the first look."""
        self._healthy.update(uids)

    def record(self, looks: tuple[Look, ...]) -> bool:
        """Take in one look at every local pod; pods not looked at are forgotten. True if `healthy` changed."""
        before = self.healthy
        self.last = {look.uid: look for look in looks}
        self._healthy &= self.last.keys()
        self._failures = {uid: count for uid, count in self._failures.items() if uid in self.last}
        for look in looks:
            self._judge(look)
        return self.healthy != before

    def _judge(self, look: Look) -> None:
        if look.is_undecided:
            return
        if look.is_good:
            self._failures.pop(look.uid, None)
            self._healthy.add(look.uid)
            return
        failures = self._failures[look.uid] = self._failures.get(look.uid, 0) + 1
        if not look.is_ready or failures >= FAILURES:
            self._healthy.discard(look.uid)
