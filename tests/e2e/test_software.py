"""Real servers and their own clients through the mesh: databases, SSH, mail, DNS. Each hop is the mesh's TLS."""

import pytest
from tests.support.manifests import client, namespace, together
from tests.support.proxy import over_mesh_tls
from tests.support.software import DNS_SERVER, MARIADB, NOBODY, POSTGRESQL, REDIS, SMTP, SSHD, server
from tests.support.world import RunningWorld

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.envoy,
    pytest.mark.software,
    pytest.mark.xdist_group("software"),
]

NODES = 2
CLIENT = "soft/client"
FAMILIES = {"4": "AF_INET", "6": "AF_INET6"}

MANIFESTS = together(
    namespace("soft"),
    server("pg", "soft", POSTGRESQL, declares="5432=tcp", user=NOBODY),
    server("maria", "soft", MARIADB, declares="3306=tcp"),
    server("cache", "soft", REDIS, declares="6379=tcp"),
    server("ssh", "soft", SSHD, declares="22=tcp", folders=("/run/sshd",)),
    server("names", "soft", DNS_SERVER, declares="53=tcp,53=udp"),
    server("mail", "soft", f"exec python3 -c '{SMTP}'", declares="25=tcp"),
    client("client", "soft"),
)


def test_psql_works_with_a_real_postgresql(mesh: RunningWorld) -> None:
    sql = (
        "create temp table t as select generate_series(1, 20000) as n; select count(*), max(n) from t; select n from t"
    )
    with over_mesh_tls(mesh, "tcp_soft/pg_5432"):
        ran = mesh.exec(CLIENT, "psql", "-qAt", "-h", "pg", "-U", "app", "postgres", "-c", sql)
    assert ran.code == 0, ran
    assert ran.out.splitlines()[0] == "20000|20000"
    assert ran.out.splitlines()[-1] == "20000"


def test_the_mariadb_client_hears_a_server_that_speaks_first(mesh: RunningWorld) -> None:
    with over_mesh_tls(mesh, "tcp_soft/maria_3306"):
        ran = mesh.exec(CLIENT, "mariadb", "--no-defaults", "-h", "maria", "--skip-ssl", "-Ne", "select 6 * 7")
    assert (ran.code, ran.out.strip()) == (0, "42"), ran


def test_redis_cli_works_with_a_real_redis(mesh: RunningWorld) -> None:
    with over_mesh_tls(mesh, "tcp_soft/cache_6379"):
        assert mesh.exec(CLIENT, "redis-cli", "-h", "cache", "set", "fruit", "kiwi").out.strip() == "OK"
        assert mesh.exec(CLIENT, "redis-cli", "-h", "cache.soft.aether.internal", "get", "fruit").out.strip() == "kiwi"


@pytest.mark.parametrize("family", FAMILIES)
def test_an_ssh_handshake_with_a_real_sshd(mesh: RunningWorld, family: str) -> None:
    with over_mesh_tls(mesh, "tcp_soft/ssh_22"):
        ran = mesh.exec(CLIENT, "ssh-keyscan", f"-{family}", "-t", "ed25519", "ssh")
    assert ran.code == 0
    assert ran.out.startswith("ssh ssh-ed25519 "), ran
    assert "SSH-2.0-OpenSSH" in ran.err


MAIL = """
import smtplib
with smtplib.SMTP("mail", 25, timeout=5) as connection:
    connection.sendmail("a@test", ["b@test"], "Subject: x" + chr(10) * 2 + "hello")
    print(connection.noop()[0])
"""


def test_mail_is_sent_to_a_server_that_speaks_first(mesh: RunningWorld) -> None:
    with over_mesh_tls(mesh, "tcp_soft/mail_25"):
        ran = mesh.python(CLIENT, MAIL)
    assert ran.out.strip() == "250", ran


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("transport", ["+notcp", "+tcp"])
def test_dig_asks_a_server_on_53_over_udp_and_tcp(mesh: RunningWorld, transport: str, family: str) -> None:
    server_name = "names.soft.aether.internal"
    question = [f"@{server_name}", f"-{family}", transport, "+tries=1", "+time=3", "question.test", "TXT"]
    ran = mesh.exec(CLIENT, "dig", *question)
    assert ran.code == 0, ran
    assert '"over the mesh"' in ran.out
    assert ("(TCP)" if transport == "+tcp" else "(UDP)") in ran.out


def test_dns_over_tcp_53_is_a_mesh_hop(mesh: RunningWorld) -> None:
    with over_mesh_tls(mesh, "tcp_soft/names_53"):
        assert mesh.exec(CLIENT, "dig", "@names", "+tcp", "+short", "question.test", "TXT").code == 0
