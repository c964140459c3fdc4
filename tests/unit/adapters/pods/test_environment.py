import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aether.adapters.clock import ManualClock
from aether.adapters.objects.kinds import KubeObject
from aether.adapters.objects.memory import MemoryStore
from aether.adapters.objects.store import USER
from aether.adapters.pods.environment import (
    ConfigMaps,
    MissingConfig,
    PodFiles,
    PodPlace,
    container_env,
    expand,
    host_name,
)
from aether.adapters.pods.parts import RunnerSettings
from aether.model.kube import (
    ConfigMapKey,
    Container,
    EnvFrom,
    EnvVar,
    Meta,
    Pod,
    PodSpec,
    Volume,
    VolumeMount,
)

PLACE = PodPlace(addresses=("10.244.1.2", "fd00:244:1::2"), node_addresses=("10.243.0.1", "fd00:243::1"))
MAIN = Container(name="main", argv=("run",))


def pod(**spec: Any) -> Pod:
    meta = Meta(name="cart-0", namespace="shop", uid="u-1", labels=(("app", "cart"),), annotations=(("n", "text"),))
    return Pod(meta=meta, spec=PodSpec(**{"containers": (MAIN,), "node": "node-1", "account": "cart", **spec}))


def config_map(name: str = "conf", **data: str) -> KubeObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": data}


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore(clock=ManualClock())
    await store.load()
    await store.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, USER)
    return store


def env_of(store: MemoryStore, *variables: EnvVar, env_from: tuple[EnvFrom, ...] = ()) -> dict[str, str]:
    container = Container(name="main", argv=("run",), env=variables, env_from=env_from)
    return container_env(container, pod(), PLACE, ConfigMaps(store, "shop"))


def test_a_container_finds_our_python_first(store: MemoryStore) -> None:
    env = env_of(store)
    assert env["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert "/usr/bin" in env["PATH"].split(":")
    assert env["HOSTNAME"] == "cart-0"


FIELDS = [
    ("metadata.name", "cart-0"),
    ("metadata.namespace", "shop"),
    ("metadata.uid", "u-1"),
    ("metadata.labels['app']", "cart"),
    ("metadata.annotations['n']", "text"),
    ("metadata.labels['none']", ""),
    ("spec.nodeName", "node-1"),
    ("spec.serviceAccountName", "cart"),
    ("status.podIP", "10.244.1.2"),
    ("status.podIPs", "10.244.1.2,fd00:244:1::2"),
    ("status.hostIP", "10.243.0.1"),
    ("status.hostIPs", "10.243.0.1,fd00:243::1"),
]


@pytest.mark.parametrize(("path", "expected"), FIELDS)
def test_fields_of_the_pod(store: MemoryStore, path: str, expected: str) -> None:
    assert env_of(store, EnvVar(name="X", from_field=path))["X"] == expected


async def test_config_maps_give_variables_and_the_containers_own_win(store: MemoryStore) -> None:
    await store.apply(config_map(A="1", B="2"), USER)
    key = ConfigMapKey(config_map="conf", key="A")
    env = env_of(
        store,
        EnvVar(name="X", from_config_map=key),
        EnvVar(name="P_B", value="mine"),
        env_from=(EnvFrom(config_map="conf", prefix="P_"),),
    )
    assert (env["X"], env["P_A"], env["P_B"]) == ("1", "1", "mine")


def test_a_config_map_that_is_not_there_is_named(store: MemoryStore) -> None:
    with pytest.raises(MissingConfig, match='configmap "conf" not found'):
        env_of(store, env_from=(EnvFrom(config_map="conf"),))


async def test_a_key_that_is_not_there_is_named(store: MemoryStore) -> None:
    await store.apply(config_map(A="1"), USER)
    with pytest.raises(MissingConfig, match='configmap "conf" has no key "Z"'):
        env_of(store, EnvVar(name="X", from_config_map=ConfigMapKey(config_map="conf", key="Z")))


async def test_what_is_optional_may_be_missing(store: MemoryStore) -> None:
    key = ConfigMapKey(config_map="none", key="Z", is_optional=True)
    optional = (EnvFrom(config_map="none", is_optional=True),)
    assert "X" not in env_of(store, EnvVar(name="X", from_config_map=key), env_from=optional)
    await store.apply(config_map("none", A="1"), USER)
    assert "X" not in env_of(store, EnvVar(name="X", from_config_map=key))


def test_a_variable_may_name_earlier_ones(store: MemoryStore) -> None:
    env = env_of(store, EnvVar(name="A", value="1"), EnvVar(name="B", value="$(A)-$(C)"), EnvVar(name="C", value="3"))
    assert env["B"] == "1-$(C)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("$(A)", "1"),
        ("x$(A)y$(A)z", "x1y1z"),
        ("$(B)", "$(B)"),
        ("$$(A)", "$(A)"),
        ("$A", "$A"),
        ("$", "$"),
        ("$$", "$"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("a$$b$$$(A)", "a$b$1"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


@given(st.text(alphabet="$()Ax", max_size=12))
def test_any_text_expands(text: str) -> None:
    assert "$" in text or expand(text, {"A": "1"}) == text


def test_a_host_name_is_at_most_63_bytes_and_ends_well() -> None:
    long = Pod(meta=Meta(name="a" * 62 + "-b"), spec=PodSpec(containers=(MAIN,)))
    assert host_name(long) == "a" * 62
    assert host_name(pod(hostname="me")) == "me"


def files_of(folder: Path, one: Pod) -> PodFiles:
    settings = RunnerSettings(directory=folder, nameservers=("10.96.0.10", "fd96::a"), is_isolated=False)
    return PodFiles(settings, one)


def test_the_resolver_is_the_clusters(store: MemoryStore, tmp_path: Path) -> None:
    files_of(tmp_path, pod()).make(PLACE, ConfigMaps(store, "shop"))
    assert (tmp_path / "u-1/etc/resolv.conf").read_text() == (
        "nameserver 10.96.0.10\nnameserver fd96::a\n"
        "search shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
    )


def test_a_pod_may_keep_the_machines_resolver(store: MemoryStore, tmp_path: Path) -> None:
    files = files_of(tmp_path, pod(dns_policy="Default"))
    files.make(PLACE, ConfigMaps(store, "shop"))
    assert [mount.target for mount in files.mounts(MAIN)] == ["/etc/hosts"]


def test_a_pod_knows_its_own_name(store: MemoryStore, tmp_path: Path) -> None:
    one = pod(subdomain="ring", host_aliases=(("10.0.0.9", ("a", "b")),))
    files_of(tmp_path, one).make(PLACE, ConfigMaps(store, "shop"))
    assert (tmp_path / "u-1/etc/hosts").read_text() == (
        "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
        "10.244.1.2 cart-0.ring.shop.svc.cluster.local cart-0\n"
        "fd00:244:1::2 cart-0.ring.shop.svc.cluster.local cart-0\n"
        "10.0.0.9 a b\n"
    )


async def test_a_config_maps_keys_are_files_and_stay_current(store: MemoryStore, tmp_path: Path) -> None:
    maps = ConfigMaps(store, "shop")
    files = files_of(tmp_path, pod(volumes=(Volume(name="v", config_map="conf", mode=0o600), Volume(name="e"))))
    with pytest.raises(MissingConfig):
        files.make(PLACE, maps)

    await store.apply(config_map(a="1", b="2"), USER)
    files.make(PLACE, maps)
    assert contents(tmp_path / "u-1/volumes/v") == {"a": "1", "b": "2"}
    assert mode(tmp_path / "u-1/volumes/v/a") == 0o600

    await store.apply(config_map(a="9"), USER)
    files.make(PLACE, maps)
    assert contents(tmp_path / "u-1/volumes/v") == {"a": "9"}
    assert contents(tmp_path / "u-1/volumes/e") == {}


async def test_items_choose_keys_and_place_them(store: MemoryStore, tmp_path: Path) -> None:
    await store.apply(config_map(a="1", b="2"), USER)
    volume = Volume(name="v", config_map="conf", items=(("a", "deep/er"),))
    files_of(tmp_path, pod(volumes=(volume,))).make(PLACE, ConfigMaps(store, "shop"))
    assert contents(tmp_path / "u-1/volumes/v") == {"deep/er": "1"}
    missing = Volume(name="v", config_map="conf", items=(("z", "z"),))
    with pytest.raises(MissingConfig, match='has no key "z"'):
        files_of(tmp_path, pod(volumes=(missing,))).make(PLACE, ConfigMaps(store, "shop"))


async def test_mounts_of_config_maps_are_read_only(store: MemoryStore, tmp_path: Path) -> None:
    volumes = (Volume(name="v", config_map="conf", is_optional=True), Volume(name="e"))
    mounts = (VolumeMount(volume="v", path="/v"), VolumeMount(volume="e", path="/e", sub_path="x"))
    files = files_of(tmp_path, pod(volumes=volumes))
    files.make(PLACE, ConfigMaps(store, "shop"))
    found = files.mounts(Container(name="main", argv=(), mounts=mounts))
    assert [(mount.target, mount.is_read_only, Path(mount.source).name) for mount in found] == [
        ("/etc/hosts", False, "hosts"),
        ("/etc/resolv.conf", False, "resolv.conf"),
        ("/v", True, "v"),
        ("/e", False, "x"),
    ]


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777
