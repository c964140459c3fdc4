import signal
import socket
import subprocess
import sys
from pathlib import Path

import dnslib
import pytest
from tests.support.dns import addresses, query
from tests.support.ports import free_port

from aether.adapters.dns import write_zone
from aether.app.dns import main
from aether.plan.mesh.dns import Zone, ZoneName

ZONE = Zone(domains=("aether.internal",), names=(ZoneName(name="cart.shop.aether.internal", ipv4=("10.96.0.5",)),))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_its_file_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    write_zone(tmp_path / "dns.json", tmp_path / "dns.sock", ZONE)
    port = free_port()
    options = ("--zone", str(tmp_path / "dns.json"), "--reload", str(tmp_path / "dns.sock"), "--port", str(port))
    command = (sys.executable, "-m", "aether.app.dns", *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("zone-loaded" in line for line in process.stdout)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(5)
            client.connect(("127.0.0.1", port))
            client.send(query("cart.shop.aether.internal").pack())
            assert addresses(dnslib.DNSRecord.parse(client.recv(512))) == ["10.96.0.5"]
        process.send_signal(number)
        assert process.wait(5) == 0


def test_what_it_cannot_do_ends_it_with_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = ["--zone", str(tmp_path / "dns.json"), "--reload", str(tmp_path / "nowhere" / "dns.sock")]
    assert main([*paths, "--upstream", "dns.test"]) == 1
    assert "bad-upstream" in capsys.readouterr().out
    assert main([*paths, "--port", str(free_port())]) == 1
    assert "reload-unavailable" in capsys.readouterr().out
