import msgspec
import pytest

from aether.model import settings


def test_sixty_four_ports_are_within_the_limit() -> None:
    assert settings.PORTS_PER_POD_LIMIT >= 64


def test_the_weights_of_the_largest_mesh_fit_in_32_bits() -> None:
    assert settings.WEIGHT_LIMIT * 100_000 < 2**32


@pytest.mark.parametrize("kind", [settings.DemandSettings, settings.RetainSettings])
def test_an_unknown_setting_is_refused(kind: type[msgspec.Struct]) -> None:
    assert msgspec.convert({}, kind) == kind()
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"no_such_setting": 1}, kind)
