"""A mesh of an ordinary user, in a user namespace: the example does there what it does for root, and leaves nothing."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ordinary import REPOSITORY, OrdinaryUser, ordinary_user, why_no_user_namespaces
from tests.support.world import Ran

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("ordinary-user")]

WORLD = f"ordinary-{os.getpid()}"
SHOP = REPOSITORY / "examples/shop"


@pytest.fixture(scope="module")
def user() -> Iterator[OrdinaryUser]:
    """An ordinary user whose world, with the example in it, is up."""
    if reason := why_no_user_namespaces():
        pytest.skip(f"no user namespaces: {reason}")
    with ordinary_user() as user:
        up = user.aether("up", str(SHOP), "--world", WORLD, "--nodes", "2", "--detach", "--fresh", limit_s=120)
        assert up.code == 0, up
        yield user
        user.aether("down", "--world", WORLD)


def in_pod(user: OrdinaryUser, *command: str, pod: str = "shop/client") -> Ran:
    return user.aether("exec", pod, "--world", WORLD, "--", *command)


def test_everything_runs_as_the_user(user: OrdinaryUser) -> None:
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in user.processes()}
    assert owners == {65534}
    assert len(user.processes()) > 20
    assert user.world(WORLD).runtime.stat().st_uid == 65534


def test_a_request_is_delivered_with_the_callers_identity(user: OrdinaryUser) -> None:
    answer = in_pod(user, "curl", "-s", "http://web:8080/").json()
    assert (answer["service"], answer["port"]) == ("shop/web", 8080)
    assert answer["xfcc"].endswith("URI=spiffe://aether.internal/ns/shop/sa/client")


def test_a_request_for_no_port_is_refused(user: OrdinaryUser) -> None:
    ran = in_pod(user, "curl", "-si", "http://web:8081/")
    assert "421" in ran.out.splitlines()[0]
    assert "x-aether-error: port-not-declared" in ran.out


ASK_UDP = """
import socket
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(5)
asking.connect(("metrics", 8125))
asking.send(b"ping")
print(asking.recv(2000).decode())
"""


def test_a_datagram_is_answered(user: OrdinaryUser) -> None:
    assert in_pod(user, "python3", "-c", ASK_UDP).out.startswith("service=shop/metrics port=8125 ")


HEAR = """
import socket
print(socket.create_connection(("mail", 2525), timeout=5).recv(200).decode())
"""


def test_a_server_that_speaks_first_is_heard(user: OrdinaryUser) -> None:
    assert in_pod(user, "python3", "-c", HEAR).out.startswith("service=shop/mail port=2525 ")


def test_names_are_resolved(user: OrdinaryUser) -> None:
    addresses = in_pod(user, "getent", "ahosts", "web.shop.aether.internal").out
    assert "10.96." in addresses
    assert "fd96::" in addresses
    assert in_pod(user, "getent", "hosts", "nobody.shop.aether.internal").code == 2


def test_the_examples_own_calls_are_all_right(user: OrdinaryUser) -> None:
    ran = user.run(sys.executable, str(SHOP / "demo.py"), AETHER_WORLD=WORLD)
    assert ran.code == 0, ran


def test_check_finds_nothing_wrong(user: OrdinaryUser) -> None:
    ran = user.aether("check", "--world", WORLD)
    assert ran.code == 0, ran


def test_nothing_is_left_when_it_is_down(user: OrdinaryUser) -> None:
    assert user.aether("down", "--world", WORLD, "--forget").code == 0
    assert not user.processes()
    paths = user.world(WORLD)
    assert not paths.runtime.exists()
    assert not paths.state.exists()
    assert WORLD not in Path("/proc/self/mountinfo").read_text()
    left = [str(path) for path in user.home.rglob("*") if path.is_file() or path.is_socket()]
    assert not left
    shutil.rmtree(user.home / ".local", ignore_errors=True)
