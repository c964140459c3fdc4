import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from aether.adapters.ca import BadLeaf, parse_leaf
from aether.adapters.ca.certificates import Life, build_leaf, build_root, certificates_pem, generate_key, key_pem
from aether.model.identity import WorkloadIdentity

CART = WorkloadIdentity("mesh.test", "shop", "cart")
ROOT = build_root("mesh.test", now=1_700_000_000.0)
KEY = generate_key()
LIFE = Life(1_700_000_000.0, 1_700_000_600.0)


def leaf_named(*names: str) -> bytes:
    plain = build_leaf(KEY.public_key(), CART, LIFE, by=ROOT)
    builder = x509.CertificateBuilder(
        issuer_name=plain.issuer,
        subject_name=plain.subject,
        public_key=plain.public_key(),
        serial_number=1,
        not_valid_before=plain.not_valid_before_utc,
        not_valid_after=plain.not_valid_after_utc,
    )
    for extension in plain.extensions:
        if not isinstance(extension.value, x509.SubjectAlternativeName):
            builder = builder.add_extension(extension.value, extension.critical)
    if names:
        uris = [x509.UniformResourceIdentifier(name) for name in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(uris), critical=True)
    return certificates_pem([builder.sign(ROOT.key, hashes.SHA256())])


def test_a_leaf_is_read_back_as_it_was_issued() -> None:
    leaf = parse_leaf(leaf_named(str(CART)), key_pem(KEY), b"roots")
    assert leaf.identity == CART
    assert (leaf.not_before, leaf.not_after, leaf.serial) == (LIFE.not_before, LIFE.not_after, 1)
    assert leaf.bundle_pem == b"roots"


@pytest.mark.parametrize("names", [(), (str(CART), str(CART)), ("https://shop.test",), ("spiffe://mesh.test",)])
def test_a_certificate_without_exactly_one_workload_name_is_no_leaf(names: tuple[str, ...]) -> None:
    with pytest.raises(BadLeaf):
        parse_leaf(leaf_named(*names), key_pem(KEY), b"")
