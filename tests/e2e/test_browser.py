"""A real browser through the mesh: what it is answered, and that it never sends a refused POST in a loop."""

import shutil
from pathlib import Path

import pytest
from tests.support.manifests import client, echo, namespace, together
from tests.support.proxy import access_lines
from tests.support.world import RunningWorld

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), "")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.envoy,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(not BROWSER, reason=f"none of {', '.join(BROWSERS)} is installed"),
]

CLIENT = "web/client"
MANIFESTS = together(namespace("web"), echo("site", "web", ["8080=http"], declares="8080"), client("client", "web"))
FORM = """
<form method=post action="http://site.web:%s/orders"><input name=order value=one></form>
<script>document.forms[0].submit()</script>
"""
RETRIES_ONCE = 2
"""A browser may ask again on a connection of its own when it hears 421 (RFC 9110, section 15.5.20)."""


def browse(mesh: RunningWorld, url: str) -> str:
    """The page that the browser ends with."""
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom")
    ran = mesh.exec(CLIENT, "env", "HOME=/tmp", BROWSER, *flags, url, limit_s=60)
    assert ran.code == 0, ran
    return ran.out


def submit(mesh: RunningWorld, folder: Path, port: int) -> str:
    page = folder / "form.html"
    page.write_text(FORM % port)
    return browse(mesh, f"file://{page}")


def test_a_browser_reads_a_page_and_sends_a_form_with_the_pods_identity(mesh: RunningWorld, tmp_path: Path) -> None:
    assert "spiffe://aether.internal/ns/web/sa/client" in browse(mesh, "http://site.web:8080/")
    sent = submit(mesh, tmp_path, 8080)
    assert '"method": "POST"' in sent
    assert '"body_bytes": 9' in sent


def test_a_browser_shows_a_refusal_and_never_sends_its_post_in_a_loop(mesh: RunningWorld, tmp_path: Path) -> None:
    assert "site.web serves 8080=http" in submit(mesh, tmp_path, 7777)
    browse(mesh, "http://site.web:7778/")
    mesh.wait("the last line of the access log", lambda: refused(mesh, 7778))
    assert 1 <= refused(mesh, 7777) <= RETRIES_ONCE


def refused(mesh: RunningWorld, port: int) -> int:
    return sum(line.get("authority") == f"site.web:{port}" and bool(line.get("error")) for line in access_lines(mesh))
