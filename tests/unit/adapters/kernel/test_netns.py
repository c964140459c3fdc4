"""Named namespaces, as far as any user may see them; the rest is in tests/netns."""

from pathlib import Path

from aether.adapters.kernel.netns import delete_netns, is_netns, netns_command


def test_a_network_namespace_is_told_from_other_files(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert is_netns(Path("/proc/self/ns/net"))
    for other in (Path("/proc/self/ns/mnt"), tmp_path / "file", tmp_path / "missing", tmp_path / "file" / "below"):
        assert not is_netns(other)


def test_deleting_what_is_no_namespace_removes_the_file_only(tmp_path: Path) -> None:
    (tmp_path / "stale").touch()
    for _ in range(2):
        delete_netns(tmp_path / "stale")
    assert list(tmp_path.iterdir()) == []


def test_a_command_is_prefixed_by_the_way_in() -> None:
    assert netns_command(Path("/run/x/pod-1"), ["sleep", "1"]) == ("nsenter", "--net=/run/x/pod-1", "--", "sleep", "1")
