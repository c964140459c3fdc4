from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from aether.api.problem import BadRequest
from aether.api.replies import flag_in, json_response, number_in


def request(query: str) -> Any:
    return make_mocked_request("GET", f"/?{query}")


def test_numbers_and_flags_are_read_or_refused() -> None:
    assert (number_in(request("n=12"), "n"), number_in(request(""), "n")) == (12, None)
    assert (flag_in(request("f=True"), "f"), flag_in(request(""), "f")) == (True, False)
    for text in ("-1", "1.5", "", "9999999999", "\u0663"):
        with pytest.raises(BadRequest):
            number_in(request(f"n={text}"), "n")
    with pytest.raises(BadRequest):
        flag_in(request("f=1"), "f")


def test_values_are_answered_as_json() -> None:
    response = json_response({"a": (1,)})
    assert (response.body, response.content_type) == (b'{"a":[1]}', "application/json")
