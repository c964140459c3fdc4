"""What the evaluator does not understand is refused by name."""

import pytest
from envoy.config.core.v3 import address_pb2
from google.protobuf import any_pb2, wrappers_pb2

from aether.render.envoy.evaluate.strict import Unsupported, require, shape, unpack


def test_a_field_outside_the_shape_is_named() -> None:
    with pytest.raises(Unsupported) as refused:
        shape("address").check(address_pb2.SocketAddress(address="::", port_value=1))
    assert refused.value.construct == "envoy.config.core.v3.SocketAddress.port_value"


def test_a_field_without_bearing_is_let_through() -> None:
    shape("address", "port_value").check(address_pb2.SocketAddress(address="::", port_value=1))


def test_a_field_that_the_messages_do_not_have_is_refused() -> None:
    unknown = address_pb2.SocketAddress.FromString(b"\xba\x3e\x00")
    with pytest.raises(Unsupported, match="field number 999"):
        shape("address").check(unknown)


def test_an_extension_is_read_by_its_type() -> None:
    packed = any_pb2.Any()
    packed.Pack(wrappers_pb2.StringValue(value="x"))
    classes = [wrappers_pb2.BoolValue, wrappers_pb2.StringValue]
    assert unpack(packed, classes, where="a test") == wrappers_pb2.StringValue(value="x")


@pytest.mark.parametrize(("type_url", "said"), [("t/x.Y", "x.Y in a test"), ("", "an empty Any in a test")])
def test_an_extension_of_another_type_is_named_with_its_place(type_url: str, said: str) -> None:
    with pytest.raises(Unsupported, match=said):
        unpack(any_pb2.Any(type_url=type_url), [wrappers_pb2.BoolValue], where="a test")


def test_a_condition_that_does_not_hold_is_named() -> None:
    require(condition=True, construct="fine")
    with pytest.raises(Unsupported, match="not evaluated: an odd thing"):
        require(condition=False, construct="an odd thing")
