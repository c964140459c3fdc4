from aether.errors import AetherError, Diagnostic, Rejected, RemoteError


def test_a_diagnostic_prints_its_place_as_exactly_as_it_is_known() -> None:
    assert str(Diagnostic(code="x", message="no")) == "no"
    assert str(Diagnostic(code="x", message="no", where="a.yaml:3", subject="Pod shop/cart", field="spec.y")) == (
        "a.yaml:3: Pod shop/cart: spec.y: no"
    )


def test_a_rejection_carries_and_prints_every_reason() -> None:
    rejected = Rejected(iter([Diagnostic(code="a", message="one"), Diagnostic(code="b", message="two")]))
    assert [diagnostic.code for diagnostic in rejected.diagnostics] == ["a", "b"]
    assert str(rejected) == "one\ntwo"


def test_families_have_codes_of_their_own() -> None:
    assert (AetherError.code, RemoteError.code, Rejected.code) == ("error", "remote-error", "rejected")
