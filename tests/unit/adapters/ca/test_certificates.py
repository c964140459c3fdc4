"""What the certificates themselves say (X509-SVID, section 4)."""

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes

from aether.adapters.ca.certificates import (
    Life,
    build_cross,
    build_leaf,
    build_root,
    certificates_pem,
    generate_key,
    issuer_key_id,
    key_pem,
    life_of,
    subject_key_id,
    uri_names,
)
from aether.model.identity import WorkloadIdentity

DOMAIN = "aether.internal"
NOW = 1_700_000_000.0
CART = WorkloadIdentity(DOMAIN, "shop", "cart")


def test_a_root_is_named_by_its_trust_domain_and_signs() -> None:
    root = build_root(DOMAIN, now=NOW).certificate
    root.verify_directly_issued_by(root)
    assert uri_names(root) == (f"spiffe://{DOMAIN}",)
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert root.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_a_leaf_names_one_identity_and_cannot_sign() -> None:
    root = build_root(DOMAIN, now=NOW)
    life = Life(NOW, NOW + 3600)
    leaf = build_leaf(generate_key().public_key(), CART, life, by=root)
    leaf.verify_directly_issued_by(root.certificate)
    assert uri_names(leaf) == (str(CART),)
    assert life_of(leaf) == life
    assert issuer_key_id(leaf) == subject_key_id(root.certificate)
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not leaf.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_a_cross_certificate_leads_from_an_old_root_to_a_new_one() -> None:
    old, new = build_root(DOMAIN, now=NOW), build_root(DOMAIN, now=NOW)
    cross = build_cross(new.certificate, DOMAIN, by=old, now=NOW)
    cross.verify_directly_issued_by(old.certificate)
    assert subject_key_id(cross) == subject_key_id(new.certificate)
    with pytest.raises((InvalidSignature, ValueError)):
        new.certificate.verify_directly_issued_by(old.certificate)


def test_names_of_another_kind_are_told_apart_from_none() -> None:
    key = generate_key()
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    names = x509.SubjectAlternativeName([x509.DNSName("cart")])
    assert uri_names(builder.sign(key, hashes.SHA256())) == ()
    assert uri_names(builder.add_extension(names, critical=False).sign(key, hashes.SHA256())) is None


def test_pem_holds_every_certificate_and_the_key_is_a_secret() -> None:
    root = build_root(DOMAIN, now=NOW)
    pem = certificates_pem([root.certificate, root.certificate])
    assert len(x509.load_pem_x509_certificates(pem)) == 2
    assert repr(key_pem(root.key)) == "Secret(…)"
    assert key_pem(root.key).reveal().startswith(b"-----BEGIN PRIVATE KEY-----")
