"""Pods in namespaces of their own, on the real kernel."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.pods import FastClock, PodBench, script, until

from aether.adapters.kernel import links
from aether.adapters.kernel.netns import create_netns, delete_netns, is_netns, socket_in
from aether.adapters.objects.kinds import KubeObject, ObjectKey
from aether.adapters.objects.store import USER
from aether.adapters.pods.parts import RunnerSettings

pytestmark = pytest.mark.root

FOREVER = 'trap "exit 0" TERM; echo up; while :; do sleep 0.02; done'
NODE_ADDRESSES = links.node_addresses(1)
SERVE = """
import http.server, socket, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("from", self.client_address[0], self.path, self.headers["host"], flush=True)
        self.send_response(200 if self.path == "/ok" else 503)
        self.end_headers()
    def log_message(self, *a): pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
Server(("::", 8080), Handler).serve_forever()
"""


class RealNetwork:
    """A `PodNetwork` of one node, and an `AddressPool` beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.node = folder / "node"
        self._numbers: dict[str, int] = {}

    async def create(self, node: str, uid: str, addresses: tuple[str, ...]) -> str:
        path = self.path(uid)
        await asyncio.to_thread(links.add_pod, self.node, path, uid, addresses, sources=NODE_ADDRESSES)
        return str(path)

    async def remove(self, uid: str) -> None:
        await asyncio.to_thread(links.remove_pod, self.node, self.path(uid), uid)

    def path(self, uid: str) -> Path:
        return self.folder / f"pod-{uid}"

    def take(self, node: str, uid: str) -> tuple[str, ...]:
        number = self._numbers.setdefault(uid, len(self._numbers) + 2)
        return (f"10.244.1.{number}", f"fd00:244:1::{number:x}")

    def give_back(self, uid: str) -> None:
        return


def _mount_folder(folder: Path) -> None:
    folder.mkdir()
    run("mount", "-t", "tmpfs", "--make-private", "tmpfs", str(folder))


def run(*command: str) -> None:
    subprocess.run(command, check=True)


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[PodBench]:
    """A bench whose node is a network namespace with addresses of its own."""
    folder = tmp_path / "netns"
    _mount_folder(folder)
    network = RealNetwork(folder)
    try:
        create_netns(network.node)
        run("nsenter", f"--net={network.node}", "sh", "-c", _NODE_UP)
        settings = RunnerSettings(
            directory=tmp_path / "pods",
            nameservers=("10.96.0.10",),
            hidden=(str(folder),),
            covered=(str(tmp_path / "keys"),),
        )
        parts: dict[str, Any] = {
            "network": network,
            "addresses": network,
            "netns_of": lambda _: network.node,
            "socket_in": socket_in,
            "settings": settings,
        }
        async with PodBench(tmp_path, FastClock(), **parts).running() as bench:
            yield bench
    finally:
        delete_netns(network.node)
        run("umount", "-l", str(folder))


_NODE_UP = " && ".join(["ip link set lo up", *(f"ip address add {address} dev lo" for address in NODE_ADDRESSES)])


def namespaces(pid: int | str) -> dict[str, str]:
    return {name: str(Path(f"/proc/{pid}/ns/{name}").readlink()) for name in ("net", "pid", "mnt", "uts", "ipc")}


async def finished(one: PodBench, name: str, text: str, **fields: Any) -> str:
    """What a pod that runs to its end printed."""
    spec = {key: fields.pop(key) for key in ("volumes", "hostname", "securityContext") if key in fields}
    uid = await one.apply(name, [script(text, **fields)], restartPolicy="Never", **spec)
    await one.until(lambda: one.status(name).get("phase") in {"Succeeded", "Failed"})
    return one.log(uid)


async def test_a_container_has_namespaces_of_its_own(one: PodBench) -> None:
    show = "import os; print(*(os.readlink(f'/proc/self/ns/{n}') for n in ('net', 'pid', 'mnt', 'uts')))"
    printed = await finished(one, "p", f'python3 -c "{show}"')
    ours = namespaces("self")
    assert len(printed.split()) == 4
    assert not set(printed.split()) & set(ours.values())


async def test_a_container_sees_its_own_processes_only(one: PodBench) -> None:
    printed = await finished(one, "p", "ls /proc | grep -c '^[0-9]'; cat /proc/1/cmdline | tr '\\0' ' '")
    count, init = printed.splitlines()
    assert int(count) <= 5
    assert "sandbox.py" in init


async def test_a_container_does_not_see_into_what_is_covered(one: PodBench, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "key").write_text("secret")
    printed = await finished(one, "p", f"cd {tmp_path}/keys && ls -A; touch new 2>&1; cat key 2>&1")
    assert "secret" not in printed
    assert "Read-only file system" in printed
    assert [entry.name for entry in (tmp_path / "keys").iterdir()] == ["key"]


async def test_a_container_is_called_as_its_pod(one: PodBench) -> None:
    assert await finished(one, "cart-0", "hostname; echo $HOSTNAME") == "cart-0\ncart-0\n"
    assert await finished(one, "cart-1", "hostname", hostname="other") == "other\n"
    long = "x" * 253
    assert await finished(one, long, "hostname") == "x" * 63 + "\n"


async def test_a_container_has_its_pods_addresses_and_files(one: PodBench) -> None:
    before = resolver_of_machine()
    printed = await finished(one, "p", "cat /etc/resolv.conf /etc/hosts; ip -o addr show eth0")
    assert "nameserver 10.96.0.10\nsearch default.svc.cluster.local svc.cluster.local cluster.local" in printed
    assert "10.244.1.2 p\n" in printed
    assert "inet 10.244.1.2/32" in printed
    assert "inet6 fd00:244:1::2/128" in printed
    assert resolver_of_machine() == before


async def test_ours_is_the_python_that_is_found(one: PodBench) -> None:
    assert await finished(one, "p", "python3 -c 'import aether, sys; print(sys.prefix)'") == f"{sys.prefix}\n"


async def test_a_volume_appears_where_there_is_no_such_place(one: PodBench) -> None:
    await one.store.apply(config_map(**{"app.conf": "text"}), USER)
    mounts = [{"name": "conf", "mountPath": "/no-such-place/conf"}, {"name": "conf", "mountPath": "/etc/no-such/app"}]
    mounts += [{"name": "conf", "mountPath": "/etc/one-file", "subPath": "app.conf"}]
    volumes = [{"name": "conf", "configMap": {"name": "conf"}}]
    text = "cat /no-such-place/conf/app.conf /etc/no-such/app/app.conf /etc/one-file; echo; test -d /usr/bin && ls /"
    printed = await finished(one, "p", text, volumeMounts=mounts, volumes=volumes)
    assert printed.startswith("texttexttext\n")
    assert {"usr", "etc", "proc", "no-such-place"} <= set(printed.split())
    assert not exists("/no-such-place")
    assert not exists("/etc/no-such")
    assert not exists("/etc/one-file")


async def test_a_config_map_is_read_only_and_an_empty_directory_is_not(one: PodBench) -> None:
    await one.store.apply(config_map(key="text"), USER)
    mounts = [{"name": "conf", "mountPath": "/conf"}, {"name": "room", "mountPath": "/room", "subPath": "deep"}]
    volumes = [{"name": "conf", "configMap": {"name": "conf"}}, {"name": "room", "emptyDir": {}}]
    printed = await finished(
        one, "p", "echo x > /conf/new; echo x > /room/new && echo written", volumeMounts=mounts, volumes=volumes
    )
    assert "Read-only file system" in printed
    assert "written" in printed


async def test_containers_of_a_pod_share_its_network_and_volumes(one: PodBench) -> None:
    mount = {"volumeMounts": [{"name": "room", "mountPath": "/room"}]}
    listen = (
        "import socket; s=socket.create_server(('127.0.0.1',7777)); open('/room/up','w'); "
        "c,_=s.accept(); c.sendall(b'hello')"
    )
    dial = "import socket; s=socket.create_connection(('127.0.0.1',7777)); print(s.recv(9).decode())"
    first = {"name": "first", "image": "host", "command": ["python3", "-c", listen], **mount}
    second = script(f'until test -e /room/up; do sleep 0.02; done; python3 -c "{dial}"', "second", **mount)
    uid = await one.apply("p", [first, second], restartPolicy="Never", volumes=[{"name": "room", "emptyDir": {}}])
    await one.until_phase("p", "Succeeded")
    assert one.log(uid, "second") == "hello\n"


async def test_files_of_a_config_map_change_inside_a_running_container(one: PodBench) -> None:
    await one.store.apply(config_map(key="old"), USER)
    text = 'until grep -q new /conf/key; do sleep 0.02; done; echo "saw it"'
    volumes = [{"name": "conf", "configMap": {"name": "conf"}}]
    container = script(text, volumeMounts=[{"name": "conf", "mountPath": "/conf"}])
    uid = await one.apply("p", [container], restartPolicy="Never", volumes=volumes)
    await one.until_ready("p")
    await one.store.apply(config_map(key="new"), USER)
    await one.until_phase("p", "Succeeded")
    assert one.log(uid) == "saw it\n"


async def test_probes_come_from_the_node(one: PodBench) -> None:
    probe = {"httpGet": {"port": 8080, "path": "/ok"}, "periodSeconds": 1, "timeoutSeconds": 5}
    uid = await one.apply("p", [server(probe)])
    await one.until_ready("p")
    await until(lambda: f"from ::ffff:{NODE_ADDRESSES[0]} /ok 10.244.1.2:8080" in one.log(uid))


async def test_a_probe_that_fails_says_why_in_the_status(one: PodBench) -> None:
    probe = {"httpGet": {"port": 8080, "path": "/no"}, "periodSeconds": 1, "failureThreshold": 1}
    await one.apply("p", [server(probe)])
    await one.until(lambda: "HTTP status 503" in str(one.condition("p", "Ready").get("message")))


async def test_a_container_that_restarts_keeps_the_pods_network(one: PodBench) -> None:
    uid = await one.apply("p", [script("readlink /proc/self/ns/net; ip -o -4 addr show eth0 | cut -c1-40; exit 1")])
    await one.until(lambda: one.status("p").get("containerStatuses") and one.container("p")["restartCount"] == 1)
    await until(lambda: len(one.log(uid).splitlines()) >= 4)
    lines = one.log(uid).splitlines()
    assert lines[:2] == lines[2:4]


async def test_commands_run_inside_the_container(one: PodBench) -> None:
    mounts = [{"name": "room", "mountPath": "/room"}]
    container = script(FOREVER, env=[{"name": "WHO", "value": "cart"}], workingDir="/room", volumeMounts=mounts)
    uid = await one.apply("p", [container], volumes=[{"name": "room", "emptyDir": {}}])
    await one.until_ready("p")
    output, sink = os.pipe()
    text = "echo $WHO $PWD $(hostname); readlink /proc/self/ns/net; cat /proc/1/cmdline | tr '\\0' ' '"
    process = await one.runner.execute(uid, "", ("sh", "-c", text), (0, sink, sink), env={})
    assert await process.wait() == 0
    os.close(sink)
    lines = read_all(output).splitlines()
    assert lines[0] == "cart /room p"
    netns = os.stat(one.runner.sandboxes()[uid]).st_ino  # noqa: PTH116 -- the path's namespace, read at once
    assert lines[1] == f"net:[{netns}]" != namespaces("self")["net"]
    assert "sandbox.py" in lines[2]


async def test_no_command_can_leave_its_capture_or_uncover_what_is_hidden(one: PodBench) -> None:
    uid = await one.apply("p", [script(FOREVER)])
    await one.until_ready("p")
    output, sink = os.pipe()
    text = "grep CapBnd /proc/self/status; unshare -n true || echo no namespace; ip link set lo down || echo no link"
    process = await one.runner.execute(uid, "", ("sh", "-c", text), (0, sink, sink), env={})
    assert await process.wait() == 0
    os.close(sink)
    text = read_all(output)
    bounding = int(text.split()[1], 16)
    assert not bounding >> 12 & 1, "net_admin"
    assert not bounding >> 21 & 1, "sys_admin"
    assert "no namespace" in text
    assert "no link" in text


async def test_a_command_inside_ends_with_its_signal_and_with_its_container(one: PodBench) -> None:
    uid = await one.apply("p", [script("trap '' TERM; while :; do sleep 0.02; done")])
    await one.until_ready("p")
    sleeper = ("sh", "-c", "exec sleep 1000")
    nothing = os.open(os.devnull, os.O_RDWR)
    first = await one.runner.execute(uid, "", sleeper, (nothing, nothing, nothing), env={})
    first.signal(15)
    assert await first.wait() == 143
    second = await one.runner.execute(uid, "", sleeper, (nothing, nothing, nothing), env={})
    os.close(nothing)
    await one.store.delete(ObjectKey("Pod", "default", "p"), grace_s=0)
    assert await second.wait() == 137


async def test_what_a_container_left_running_ends_with_it(one: PodBench) -> None:
    orphan = (
        "setsid setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.02; done' & sleep 0.2; readlink /proc/self/ns/pid"
    )
    printed = await finished(one, "p", orphan)
    await until(lambda: printed.strip() not in {pid_namespace(pid) for pid in processes()})


async def test_signals_and_ends_are_told_as_of_a_container(one: PodBench) -> None:
    await finished(one, "killed", "kill -9 $$$$")
    ended = one.container("killed")["state"]["terminated"]
    assert (ended["exitCode"], ended["signal"]) == (137, 9)
    assert one.status("killed")["phase"] == "Failed"


async def test_a_pod_that_is_gone_leaves_nothing(one: PodBench) -> None:
    other = await one.apply("other", [script(FOREVER)])
    uid = await one.apply("p", [script("trap '' TERM; while :; do sleep 0.02; done")], terminationGracePeriodSeconds=1)
    await one.until_ready("p")
    await one.until_ready("other")
    path = Path(one.runner.sandboxes()[uid])
    assert is_netns(path)
    inode = inode_of(path)
    await one.store.delete(ObjectKey("Pod", "default", "p"))
    await one.until_gone("p")
    assert not exists(str(path))
    assert set(one.runner.sandboxes()) == {other}
    assert inode not in {holder for pid in processes() for holder in held_namespaces(pid)}


async def test_who_a_container_runs_as(one: PodBench) -> None:
    printed = await finished(one, "p", "id -u; id -g", securityContext={"runAsUser": 65534, "runAsGroup": 65533})
    assert printed == "65534\n65533\n"


def server(readiness: dict[str, Any]) -> dict[str, Any]:
    return {"name": "main", "image": "host", "command": ["python3", "-c", SERVE], "readinessProbe": readiness}


def config_map(**data: str) -> KubeObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": data}


def processes() -> list[str]:
    return [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]


def inode_of(path: Path) -> int:
    return path.stat().st_ino


def exists(path: str) -> bool:
    return Path(path).exists()


def resolver_of_machine() -> str:
    return Path("/etc/resolv.conf").read_text()


def read_all(descriptor: int) -> str:
    with os.fdopen(descriptor) as stream:
        return stream.read()


def pid_namespace(pid: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def held_namespaces(pid: str) -> list[int]:
    """The network namespaces that the process is in or has mounted."""
    try:
        own = inode_of(Path(f"/proc/{pid}/ns/net"))
        mounts = Path(f"/proc/{pid}/mountinfo").read_text()
    except OSError:
        return []
    named = [word[5:-1] for word in mounts.split() if word.startswith("net:[")]
    return [own, *(int(number) for number in named)]
