from aether.model.secret import Secret


def test_a_secret_does_not_print() -> None:
    secret = Secret(b"hunter2")
    assert f"{secret} {secret!r} {[secret]}" == "Secret(…) Secret(…) [Secret(…)]"


def test_a_secret_is_revealed_on_purpose() -> None:
    assert Secret(b"hunter2").reveal() == b"hunter2"


def test_secrets_are_equal_by_content() -> None:
    assert Secret(b"a") == Secret(b"a")
    assert Secret(b"a") != Secret(b"b")
    assert Secret(b"a") != b"a"
    assert len({Secret(b"a"), Secret(b"a")}) == 1
