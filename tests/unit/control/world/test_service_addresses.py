import ipaddress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aether.adapters.objects.kinds import KubeObject
from aether.adapters.objects.state import StateFile, StateUnreadable
from aether.control.world.service_addresses import ServiceAddresses, asked_band
from aether.errors import Rejected
from aether.model.kube import GENERATED_LABEL
from aether.model.names import ServiceId

CIDRS = ("10.96.0.0/16", "fd96::/112")
DNS = ("10.96.0.10", "fd96::a")


def addresses(*cidrs: str, state: StateFile | None = None) -> ServiceAddresses:
    return ServiceAddresses(cidrs or CIDRS, reserved=DNS if not cidrs else (), state=state)


def service(name: str = "cart", *, is_generated: bool = False, **spec: Any) -> KubeObject:
    metadata: dict[str, Any] = {"name": name, "namespace": "shop"}
    if is_generated:
        metadata["labels"] = {GENERATED_LABEL: "true"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def given_to(pool: ServiceAddresses, one: KubeObject, old: KubeObject | None = None) -> list[str]:
    spec = pool(one, old)["spec"]
    assert spec["clusterIP"] == spec["clusterIPs"][0]
    found: list[str] = spec["clusterIPs"]
    return found


def refusal(pool: ServiceAddresses, one: KubeObject, old: KubeObject | None = None) -> tuple[str, str]:
    with pytest.raises(Rejected) as caught:
        pool(one, old)
    (problem,) = caught.value.diagnostics
    return problem.code, problem.message


def test_a_service_gets_one_address_of_each_family_above_the_band() -> None:
    v4, v6 = (ipaddress.ip_address(text) for text in given_to(addresses(), service()))
    assert v4 in ipaddress.ip_network(CIDRS[0])
    assert v6 in ipaddress.ip_network(CIDRS[1])
    assert int(v4) - int(ipaddress.ip_address("10.96.0.0")) >= asked_band(65536) == 256


def test_the_same_service_gets_the_same_address_wherever_it_is_asked() -> None:
    assert given_to(addresses(), service()) == given_to(addresses(), service())


def test_no_two_services_share_an_address() -> None:
    pool = addresses()
    found = [address for number in range(2000) for address in given_to(pool, service(f"s{number}"))]
    assert len(set(found)) == 4000


def test_an_address_can_be_asked_for() -> None:
    pool = addresses()
    asked = given_to(pool, service(clusterIP="10.96.0.77"))
    assert asked[0] == "10.96.0.77"
    assert len(asked) == 2
    assert given_to(pool, service("two", clusterIP="fd96::5", clusterIPs=["fd96::5"]))[1] == "fd96::5"


REFUSED = [
    ("10.96.0.1", ("bad-address", "10.96.0.1 is reserved")),
    ("10.96.0.0", ("bad-address", "10.96.0.0 is reserved")),
    ("10.96.0.10", ("bad-address", "10.96.0.10 is reserved")),
    ("10.97.0.1", ("bad-address", "10.97.0.1 is not in the service ranges 10.96.0.0/16 and fd96::/112")),
    ("10.96.0.77", ("address-taken", "10.96.0.77 belongs to Service shop/first")),
    ("ten", ("bad-address", "'ten' is no IP address")),
]


@pytest.mark.parametrize(("asked", "expected"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_cannot_be_had_is_refused(asked: str, expected: tuple[str, str]) -> None:
    pool = addresses()
    given_to(pool, service("first", clusterIP="10.96.0.77"))
    assert refusal(pool, service("second", clusterIP=asked)) == expected


def test_none_makes_a_headless_service() -> None:
    assert given_to(addresses(), service(clusterIP="None")) == ["None"]


def test_an_address_stays_and_does_not_change() -> None:
    pool = addresses()
    old = pool(service(), None)
    assert given_to(pool, service(ports=[{"port": 80}], **address_of(old)), old) == old["spec"]["clusterIPs"]
    assert given_to(pool, service(), old) == old["spec"]["clusterIPs"]
    code, message = refusal(pool, service(clusterIP="10.96.0.99"), old)
    assert code == "immutable"
    assert message.startswith("the address of a Service cannot change (it is 10.96.")
    assert refusal(pool, service(clusterIP="None"), old)[0] == "immutable"


def test_a_headless_service_stays_headless() -> None:
    pool = addresses()
    old = pool(service(clusterIP="None"), None)
    assert given_to(pool, service(**address_of(old)), old) == ["None"]


def test_a_user_who_takes_a_generated_services_name_keeps_its_address_or_chooses() -> None:
    pool = addresses()
    old = pool(service(is_generated=True), None)
    assert given_to(pool, service(), old) == old["spec"]["clusterIPs"]
    assert given_to(pool, service(clusterIP="10.96.0.99"), old)[0] == "10.96.0.99"
    assert given_to(pool, service(clusterIP="None"), old) == ["None"]


def test_other_objects_pass() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}}
    assert addresses()(pod, None) is pod


async def test_addresses_are_the_same_after_a_restart(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "addresses.json")
    pool = addresses(state=state)
    taken = given_to(pool, service(clusterIP="10.96.0.77"))
    picked = given_to(pool, service("other"))
    await pool.save()

    again = addresses(state=state)
    again.load()

    assert given_to(again, service()) == taken
    assert given_to(again, service("other")) == picked


async def test_saved_addresses_that_no_longer_fit_are_given_anew(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "addresses.json")
    pool = ServiceAddresses(("10.90.0.0/16",), reserved=(), state=state)
    given_to(pool, service())
    await pool.save()
    again = addresses(state=state)
    again.load()
    assert given_to(again, service())[0].startswith("10.96.")


def test_a_file_that_is_none_of_ours_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "addresses.json"
    path.write_text("[]")
    with pytest.raises(StateUnreadable):
        addresses(state=StateFile(path)).load()


def test_a_service_that_is_gone_keeps_its_address_until_somebody_asks_for_it() -> None:
    pool = addresses()
    given_to(pool, service("first", clusterIP="10.96.0.77"))
    pool.retire([])
    assert given_to(pool, service("first"))[0] == "10.96.0.77"
    pool.retire([])
    assert given_to(pool, service("second", clusterIP="10.96.0.77"))[0] == "10.96.0.77"
    pool.retire([ServiceId("shop", "second")])
    assert given_to(pool, service("first"))[0] != "10.96.0.77"


def test_a_full_range_gives_what_nobody_uses_and_then_refuses() -> None:
    pool = addresses("10.96.0.0/29")
    found = {given_to(pool, service(f"s{number}"))[0] for number in range(5)}
    assert found == {f"10.96.0.{number}" for number in range(2, 7)}
    assert refusal(pool, service("one-more")) == ("no-address", "no address is left in 10.96.0.0/29")
    pool.retire([ServiceId("shop", f"s{number}") for number in range(4)])
    assert given_to(pool, service("one-more"))[0] in found


@given(st.lists(st.sampled_from("abcdefgh"), max_size=30))
def test_nobody_gets_what_is_reserved(names: list[str]) -> None:
    pool = addresses("10.96.0.0/28")
    for name in names:
        (address,) = given_to(pool, service(name))
        assert address not in {"10.96.0.0", "10.96.0.1", "10.96.0.15"}


def address_of(one: KubeObject) -> dict[str, Any]:
    return {name: one["spec"][name] for name in ("clusterIP", "clusterIPs")}
