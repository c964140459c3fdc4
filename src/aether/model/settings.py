"""Every setting of the mesh: its unit, its default and the reason for the default.

Environment, file and flags are three ways to fill these structs; unknown keys are refused. What the design fixes is a
constant, with its reason, and no setting.
"""

import msgspec

PORTS_PER_POD_LIMIT = 128
"""Declared ports of one pod. Each is an inbound filter chain on its node; twice the most that was ever asked for."""

WEIGHT_LIMIT = 10_000
"""The largest endpoint weight. Envoy adds the weights of a locality in 32 bits: 100,000 pods of it stay below 2^32."""

SOCKET_PATH_LIMIT_BYTES = 107
"""A unix socket's path in Linux: sockaddr_un holds 108 bytes with the closing zero (unix(7))."""

LEAF_LIFETIME_LIMIT_S = 24 * 3600.0
"""The longest life of a workload's certificate; a root rotation lasts as long."""


class DemandSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node keeps because its pods were seen to call it (spec section 9)."""

    idle_ttl_s: float = 3600.0
    """Seconds without a request after which an observed service's endpoints leave the node. An hour outlasts the
    quiet times of ordinary callers; waking one costs a few milliseconds."""


class RetainSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stays, empty, after its rows left (spec section 10)."""

    grace_s: float = 90.0
    """Seconds a service keeps its ports when its rows left with no evidence of what it is now. Longer than a node's
    lease, so that an agent that restarts loses no route."""
