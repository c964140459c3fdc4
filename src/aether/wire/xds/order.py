"""In which order the resource types travel, and what each must wait for: make before break.

Owns: the rules of each type and the steps of an update. Leaves to others: what is wanted (the publisher) and what an
Envoy already has (`subscription`).

Envoy takes the messages of a stream in order, and withholds the acknowledgement of clusters until they are warm. So a
listener or a table is sent once the clusters it may name are acknowledged, and a cluster is taken away once what may
name it is gone. Every wait is bounded: an Envoy that never acknowledges is still told everything.
"""

from collections.abc import Mapping

import msgspec

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
ROUTE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
SECRET = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

PUT_WAIT_S = 3.0
"""How long listeners and tables wait for clusters: three times what a cluster may warm without its endpoints."""
REMOVAL_WAIT_S = 6.0
"""How long clusters that nobody wants wait for listeners and tables to be taken: keeping them costs only memory."""


class TypeRule(msgspec.Struct, frozen=True, kw_only=True):
    """How resources of one type are sent.

    `chunk`: resources in one message. One, where Envoy drops the good ones beside a bad one.
    `sends_removals`: a name that is no longer wanted is removed. Where it is not, Envoy would keep it all the same.
    `keeps_asked`: what Envoy asked for by name is never removed, because it would never ask again.
    `denies`: a name that does not exist is answered so; else something that waits for it would wait out its timeout.
    `cures`: a refused resource is replaced by the last good one, or removed, because Envoy may be waiting for it.
    """

    chunk: int = 1
    sends_removals: bool = False
    keeps_asked: bool = False
    denies: bool = False
    cures: bool = False


RULES: Mapping[str, TypeRule] = {
    CLUSTER: TypeRule(chunk=100, sends_removals=True, keeps_asked=True, cures=True),
    ENDPOINT: TypeRule(denies=True, cures=True),
    SECRET: TypeRule(sends_removals=True, denies=True, cures=True),
    LISTENER: TypeRule(chunk=100, sends_removals=True),
    ROUTE: TypeRule(),
}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One part of an update. It begins when everything of `waits_for` is acknowledged, or after `limit_s`.

    A removal also waits for types that this Envoy has not asked for yet: after a reconnect they come in any order.
    """

    type_url: str
    puts: bool = False
    removes: bool = False
    waits_for: tuple[str, ...] = ()
    limit_s: float = 0.0


STEPS: tuple[Step, ...] = (
    Step(type_url=CLUSTER, puts=True),
    Step(type_url=ENDPOINT, puts=True),
    Step(type_url=SECRET, puts=True),
    Step(type_url=LISTENER, puts=True, removes=True, waits_for=(CLUSTER,), limit_s=PUT_WAIT_S),
    Step(type_url=ROUTE, puts=True, waits_for=(CLUSTER,), limit_s=PUT_WAIT_S),
    Step(type_url=CLUSTER, removes=True, waits_for=(LISTENER, ROUTE), limit_s=REMOVAL_WAIT_S),
    Step(type_url=SECRET, removes=True, waits_for=(LISTENER, CLUSTER), limit_s=REMOVAL_WAIT_S),
)
"""In this order. The load assignment of a cluster follows the message with the cluster, before anything else."""
