"""The functions and the Lua that Envoy runs say the same: the Lua runs here."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lupa import LuaRuntime  # type: ignore[import-untyped]  # it has no types
from tests.support.facts import authorities

from aether.model.names import Domains
from aether.render.envoy.names import CALLER_HEADER
from aether.render.envoy.routes import Specifier, specifier_source
from aether.render.explain.specifiers import contracts_for

DOMAINS = Domains()


def run_lua(source: str, headers: dict[str, str]) -> Any:
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.execute(source)
    handle = lua.eval(
        "function(get) return {headers = function() return {get = function(_, n) return get(n) end} end} end"
    )
    return lua.globals().envoy_on_route(handle(headers.get))


@pytest.mark.parametrize("specifier", list(Specifier))
@given(authority=authorities(), caller=st.sampled_from(("red", "", "a/b")), dialled=st.sampled_from((80, 8080, 18081)))
def test_the_function_answers_as_the_program_does(
    specifier: Specifier, authority: str, caller: str, dialled: int
) -> None:
    source = specifier_source(specifier, DOMAINS)
    given_headers = {":authority": authority, CALLER_HEADER: f"{caller}/{dialled}"}
    said = contracts_for(DOMAINS)[specifier](source, {name: (value,) for name, value in given_headers.items()})
    assert said == run_lua(source, given_headers)
