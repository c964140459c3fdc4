"""What stays, empty, after its rows left; for how long (spec section 10, rulings D.6).

Owns: which services the node goes on answering for without endpoints.
Leaves to others: what is answered (`addressing`).

Rule: evidence replaces at once. Rows of the service under any protocol are evidence, and so is a generated Service that
declares a port; only a service of which nothing says what it is now is kept as it was.
"""

from collections.abc import Iterable

import msgspec

from aether.model.names import ServiceId
from aether.model.settings import RetainSettings
from aether.plan.mesh.services import ServiceView


class LostService(msgspec.Struct, frozen=True, kw_only=True):
    """A service of which nothing is known any more, as it was, and when (monotonic seconds) it is given up."""

    view: ServiceView
    until_s: float


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What one look at the facts leaves for the next. `known` are the services with ports, as they are by evidence."""

    known: tuple[ServiceView, ...] = ()
    lost: tuple[LostService, ...] = ()

    def next_deadline_s(self) -> float | None:
        """When to look again though nothing changed."""
        return min((one.until_s for one in self.lost), default=None)


def retain(
    before: Retention, views: Iterable[ServiceView], *, now_s: float, settings: RetainSettings | None = None
) -> Retention:
    """What is known after these views, and what is lost but kept."""
    grace_s = (settings or RetainSettings()).grace_s
    evident = {view.service for view in views if has_evidence(view)}
    known = tuple(view for view in views if view.ports)
    lost = [one for one in before.lost if one.view.service not in evident and now_s < one.until_s]
    lost += [LostService(view=view, until_s=now_s + grace_s) for view in before.known if view.service not in evident]
    return Retention(known=known, lost=tuple(sorted(lost, key=lambda one: one.view.service)))


def has_evidence(view: ServiceView) -> bool:
    return bool(view.ports or view.pod_addresses)


def with_retained(views: Iterable[ServiceView], retention: Retention) -> tuple[ServiceView, ...]:
    """The views, and the lost services without pods: at the addresses they still have, never at another's."""
    by_service: dict[ServiceId, ServiceView] = {view.service: view for view in views}
    taken = frozenset(address for view in by_service.values() for address in (*view.addresses, *view.pod_addresses))
    for one in retention.lost:
        now = by_service.get(one.view.service)
        free = tuple(address for address in one.view.addresses if address not in taken)
        bare = msgspec.structs.replace(one.view, pod_addresses=(), addresses=free if now is None else now.addresses)
        by_service[one.view.service] = bare
    return tuple(by_service[service] for service in sorted(by_service))
