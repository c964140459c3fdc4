"""Named namespaces and nftables contexts on the real kernel."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.netns.lab import Lab

from aether.adapters.kernel.netns import create_netns, delete_netns, in_netns, is_netns, netns_command, socket_in
from aether.adapters.kernel.nft import Nft, NftRefused
from aether.adapters.kernel.syscall import KernelError

pytestmark = pytest.mark.root


def own_netns() -> str:
    return str(Path("/proc/thread-self/ns/net").readlink())


def folder_of(lab: Lab) -> Path:
    return lab.add_node(1).netns.parent


def test_a_namespace_lives_by_its_file(lab: Lab) -> None:
    path = folder_of(lab) / "deep" / "one"
    assert not lab.run(is_netns, path)
    lab.run(create_netns, path)
    assert lab.run(is_netns, path)
    inode = lab.run(os.stat, path).st_ino
    lab.run(create_netns, path)
    assert lab.run(os.stat, path).st_ino == inode, "made again is the same"
    for _ in range(2):
        lab.run(delete_netns, path)
    assert not lab.run(path.exists)


def test_a_file_left_behind_is_no_namespace(lab: Lab) -> None:
    path = folder_of(lab) / "stale"
    lab.run(path.touch)
    assert not lab.run(is_netns, path)
    lab.run(create_netns, path)
    assert lab.run(is_netns, path)


def test_a_folder_that_cannot_be_is_the_kernels_error(lab: Lab) -> None:
    file = folder_of(lab) / "file"
    lab.run(file.touch)
    with pytest.raises(KernelError, match="file/x"):
        lab.run(create_netns, file / "x")


def test_nothing_changes_for_other_threads(lab: Lab) -> None:
    folder, here = folder_of(lab), own_netns()
    seen: set[str] = set()

    def enter(number: int) -> None:
        path = folder / f"n{number}"
        create_netns(path)
        before = own_netns()
        for _ in range(20):
            with in_netns(path):
                seen.add(own_netns())
            assert own_netns() == before
            with socket_in(path, socket.AF_INET, socket.SOCK_DGRAM):
                assert own_netns() == before

    def all_at_once() -> None:
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(enter, range(8)))

    lab.run(all_at_once)
    assert len(seen) == 8
    assert own_netns() == here


def test_an_error_inside_still_leads_back(lab: Lab) -> None:
    path = lab.add_node(1).netns

    def fail() -> tuple[str, str]:
        before = own_netns()
        with pytest.raises(ZeroDivisionError), in_netns(path):
            _ = 1 / 0
        return before, own_netns()

    before, after = lab.run(fail)
    assert before == after


def test_a_missing_namespace_is_named(lab: Lab) -> None:
    with pytest.raises(KernelError, match="/nonexistent/netns"):
        lab.run(socket_in, Path("/nonexistent/netns"), socket.AF_INET, socket.SOCK_STREAM)


def test_a_program_runs_where_it_is_told_to(lab: Lab) -> None:
    node = lab.add_node(1)
    inside = lab.output(node.netns, "readlink", "/proc/self/ns/net").strip()
    assert inside == f"net:[{lab.run(os.stat, node.netns).st_ino}]"
    assert netns_command(node.netns, ["true"])[-1] == "true"


def test_a_ruleset_is_used_by_many_threads_at_once(lab: Lab) -> None:
    nft = lab.nft(lab.add_node(1).netns)
    nft.apply("table inet t { set s { type inet_service; }; }")
    ports = range(1, 201)
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda port: nft.apply(f"add element inet t s {{ {port} }}"), ports))
    listed = nft.list_table("inet", "t")
    assert all(f" {port}," in listed.replace("\n", ",") or f" {port} }}" in listed for port in ports)


def test_a_table_is_known_by_its_whole_name(lab: Lab) -> None:
    nft = lab.nft(lab.add_node(1).netns)
    nft.apply("table inet aether_capture { chain out { }; }")
    assert nft.has_table("inet", "aether_capture")
    assert not nft.has_table("inet", "aether")
    assert not nft.has_table("ip", "aether_capture")
    nft.apply("flush ruleset")
    assert not nft.has_table("inet", "aether_capture")


def test_two_rulesets_do_not_see_each_other(lab: Lab) -> None:
    one, two = lab.nft(lab.add_node(1).netns), lab.nft(lab.add_node(2).netns)
    one.apply("table inet only_here { }")
    assert "only_here" in one.list_ruleset()
    assert "only_here" not in two.list_ruleset()


def test_a_refusal_carries_the_librarys_own_text(lab: Lab) -> None:
    nft = lab.nft(lab.add_node(1).netns)
    with pytest.raises(NftRefused, match="syntax error, unexpected"):
        nft.apply("table inet { nonsense")
    with pytest.raises(NftRefused, match="No such file or directory"):
        nft.apply("add rule inet nowhere out accept")
    assert nft.list_table("inet", "nowhere") == ""


def test_a_closed_ruleset_is_refused_and_lets_go_of_its_namespace(lab: Lab) -> None:
    path = folder_of(lab) / "short"
    lab.run(create_netns, path)
    with lab.run(Nft, path) as nft:
        nft.apply("table inet t { }")
    nft.close()
    with pytest.raises(NftRefused, match="closed"):
        nft.list_ruleset()
