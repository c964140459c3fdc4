"""What a mesh does in a world, tried: the command of the throw-away world that `aether check` makes.

Prints its checks as JSON on stdout.
"""

import sys
from collections.abc import Callable, Mapping

import msgspec

from aether.adapters.kernel.nft import Nft
from aether.errors import AetherError
from aether.model.world import Check, CheckVerdict

_TPROXY = """
table inet aether_trial {
  chain prerouting {
    type filter hook prerouting priority mangle; policy accept;
    meta l4proto tcp meta nfproto ipv4 tproxy ip to 127.0.0.1:18001 meta mark set 1
    meta l4proto tcp meta nfproto ipv6 tproxy ip6 to [::1]:18001 meta mark set 1
  }
}
"""

_REJECT = """
table inet aether_trial_reject {
  chain output {
    type filter hook output priority filter; policy accept;
    meta l4proto tcp ct mark set 1 reject with tcp reset
  }
}
"""

_NAT = """
table inet aether_trial_nat {
  chain prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    meta l4proto udp ip daddr 10.96.0.1 dnat ip to 10.244.0.1:53
  }
}
"""

RULES: Mapping[str, str] = {
    "the kernel captures (nftables TPROXY, IPv4 and IPv6)": _TPROXY,
    "the kernel refuses (nftables reject, conntrack marks)": _REJECT,
    "the kernel routes services (nftables NAT)": _NAT,
}

_ADVICE = (
    "a kernel with CONFIG_NF_TABLES, CONFIG_NFT_TPROXY, CONFIG_NFT_REJECT, CONFIG_NFT_NAT and CONFIG_NF_CONNTRACK_MARK"
)


def try_rules(apply: Callable[[str], None]) -> tuple[Check, ...]:
    """One check for each ruleset: `apply` takes it, or raises an AetherError with the kernel's words."""
    return tuple(_try(fact, ruleset, apply) for fact, ruleset in RULES.items())


def _try(fact: str, ruleset: str, apply: Callable[[str], None]) -> Check:
    try:
        apply(ruleset)
    except AetherError as error:
        lines = str(error).splitlines() or [""]
        return Check(fact=fact, verdict=CheckVerdict.FAILED, why=lines[0], advice=_ADVICE)
    return Check(fact=fact)


def main() -> None:
    try:
        with Nft() as nft:
            checks = try_rules(nft.apply)
    except AetherError as error:
        checks = (Check(fact="nftables works", verdict=CheckVerdict.FAILED, why=str(error), advice=_ADVICE),)
    sys.stdout.buffer.write(msgspec.json.encode(checks))


if __name__ == "__main__":
    main()
