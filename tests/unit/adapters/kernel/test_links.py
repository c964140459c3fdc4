"""Names and addresses of links; the links are in tests/netns."""

import ipaddress

import pytest

from aether.adapters.kernel.links import FABRIC_ADDRESSES, POD_LINK_PREFIX, node_addresses, pod_link, pod_ranges
from aether.model.facts import MeshConfig

_NAME_BYTES = 15  # IFNAMSIZ without its final zero


@pytest.mark.parametrize("index", [1, 10, 254])
def test_nodes_and_their_pods_have_addresses_of_both_families(index: int) -> None:
    v4, v6 = (ipaddress.ip_address(address) for address in node_addresses(index))
    assert (v4.version, v6.version) == (4, 6)
    for text, whole in zip(pod_ranges(index), MeshConfig().pod_cidrs, strict=True):
        pods, mesh = ipaddress.ip_network(text), ipaddress.ip_network(whole)
        assert pods.network_address in mesh
        assert v4 not in pods
        assert v6 not in pods


def test_no_two_nodes_share_an_address_or_a_range() -> None:
    everything = [each for index in range(1, 255) for each in (*node_addresses(index), *pod_ranges(index))]
    assert len(set(everything)) == len(everything)
    assert not set(FABRIC_ADDRESSES) & set(everything)


def test_the_name_of_a_pods_link_fits_and_is_its_own() -> None:
    uids = [f"3f0e0f6c-0000-4000-8000-{number:012}" for number in range(500)]
    names = {pod_link(uid) for uid in uids}
    assert len(names) == len(uids)
    assert all(name.startswith(POD_LINK_PREFIX) and len(name) <= _NAME_BYTES for name in names)
    assert pod_link(uids[0]) == pod_link(uids[0])
