import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.support.handshake import handshake

from aether.adapters.ca import (
    AuthorityExpired,
    AuthorityUnreadable,
    CertificateAuthority,
    Leaf,
    RequestRefused,
    RotationRefused,
)
from aether.adapters.ca.authority import FILE_NAME, LEAF_LIFETIME_S
from aether.adapters.ca.certificates import CLOCK_SKEW_S, ROOT_LIFETIME_S, generate_key
from aether.adapters.ca.private_file import create_private
from aether.adapters.ca.request import build_request
from aether.adapters.clock import ManualClock
from aether.model.identity import WorkloadIdentity

DOMAIN = "mesh.test"
CART = WorkloadIdentity(DOMAIN, "shop", "cart")
WEB = WorkloadIdentity(DOMAIN, "shop", "web")
REAL_NOW = 1_790_000_000.0
DAY_S = 86_400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall=REAL_NOW)


@pytest.fixture
def authority(tmp_path: Path, clock: ManualClock) -> CertificateAuthority:
    return CertificateAuthority.open(tmp_path / "ca", DOMAIN, clock=clock)


def certificates(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem)


def test_a_root_is_a_signing_certificate_of_its_trust_domain_for_ten_years(authority: CertificateAuthority) -> None:
    (root,) = certificates(authority.bundle_pem())
    names = root.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["spiffe://mesh.test"]
    constraints = root.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.value.ca, constraints.critical) == (True, True)
    usage = root.extensions.get_extension_for_class(x509.KeyUsage)
    assert (usage.value.key_cert_sign, usage.value.digital_signature, usage.critical) == (True, False, True)
    assert isinstance(root.public_key(), ec.EllipticCurvePublicKey)
    assert authority.not_after == REAL_NOW + ROOT_LIFETIME_S
    root.verify_directly_issued_by(root)


def test_a_leaf_has_one_spiffe_id_no_subject_and_both_purposes(authority: CertificateAuthority) -> None:
    leaf = authority.issue(CART)
    (certificate,) = certificates(leaf.chain_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert [name.value for name in names.value] == [str(CART)]
    assert names.critical
    assert not list(certificate.subject)
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(purposes) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert leaf.identity == CART
    assert leaf.serial == certificate.serial_number
    assert repr(leaf.key) not in leaf.key.reveal().decode()


def test_a_leaf_lives_a_day_begins_before_now_and_rotates_at_half_life(authority: CertificateAuthority) -> None:
    leaf = authority.issue(CART)
    assert leaf.not_before == REAL_NOW - CLOCK_SKEW_S
    assert leaf.not_after == REAL_NOW + LEAF_LIFETIME_S
    assert leaf.rotate_at == REAL_NOW + LEAF_LIFETIME_S / 2


@pytest.mark.parametrize(("asked_s", "given_s"), [(600.0, 600.0), (10 * DAY_S, LEAF_LIFETIME_S)])
def test_a_leaf_may_live_shorter_but_never_longer(
    authority: CertificateAuthority, asked_s: float, given_s: float
) -> None:
    assert authority.issue(CART, lifetime_s=asked_s).not_after == REAL_NOW + given_s


def test_no_leaf_outlives_its_root(authority: CertificateAuthority, clock: ManualClock) -> None:
    clock.advance(ROOT_LIFETIME_S - 100)
    assert authority.issue(CART).not_after == authority.not_after
    clock.advance(100)
    with pytest.raises(AuthorityExpired) as raised:
        authority.issue(CART)
    assert raised.value.code == "ca-expired"


def test_the_root_is_made_once(tmp_path: Path, clock: ManualClock, authority: CertificateAuthority) -> None:
    again = CertificateAuthority.open(tmp_path / "ca", DOMAIN, clock=clock)
    assert again.bundle_pem() == authority.bundle_pem()


def test_only_the_owner_can_read_the_key(tmp_path: Path, authority: CertificateAuthority) -> None:
    assert not authority.is_rotating
    (file,) = (tmp_path / "ca").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_damaged_authority_is_an_error_and_stays_as_it_is(
    tmp_path: Path, clock: ManualClock, authority: CertificateAuthority
) -> None:
    assert authority.trust_domain == DOMAIN
    path = tmp_path / "ca" / FILE_NAME
    whole = path.read_bytes()
    damaged = [whole[:length] for length in range(0, len(whole) - 1, 37)]
    other_key = generate_key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate = whole[whole.index(b"-----BEGIN CERTIFICATE-----") :]
    for data in (*damaged, b"\xff" * 100, other_key + certificate, whole + certificate, whole + 2 * certificate):
        path.write_bytes(data)
        with pytest.raises(AuthorityUnreadable) as raised:
            CertificateAuthority.open(tmp_path / "ca", DOMAIN, clock=clock)
        assert raised.value.path == path
        assert raised.value.code == "ca-unreadable"
        assert path.read_bytes() == data


def test_a_key_of_another_kind_is_an_error(tmp_path: Path, clock: ManualClock, authority: CertificateAuthority) -> None:
    key = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "ca" / FILE_NAME).write_bytes(key + authority.bundle_pem())
    with pytest.raises(AuthorityUnreadable):
        CertificateAuthority.open(tmp_path / "ca", DOMAIN, clock=clock)


def test_a_rotation_of_which_a_part_is_anothers_is_an_error(
    tmp_path: Path, authority: CertificateAuthority, clock: ManualClock
) -> None:
    authority.begin_root_rotation()
    path = tmp_path / "ca" / FILE_NAME
    stranger = CertificateAuthority.open(tmp_path / "stranger", DOMAIN, clock=clock).bundle_pem()
    old = certificates(authority.bundle_pem())[1].public_bytes(serialization.Encoding.PEM)
    path.write_bytes(path.read_bytes().replace(old, stranger))
    with pytest.raises(AuthorityUnreadable, match="do not belong together"):
        CertificateAuthority.open(tmp_path / "ca", DOMAIN, clock=clock)


def test_of_two_that_make_the_root_at_once_one_wins(tmp_path: Path) -> None:
    assert create_private(tmp_path / "root", b"first")
    assert not create_private(tmp_path / "root", b"second")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"first"]


def test_an_authority_that_cannot_be_read_is_an_error(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "ca" / FILE_NAME).mkdir(parents=True)
    with pytest.raises(AuthorityUnreadable):
        CertificateAuthority.open(tmp_path / "ca", DOMAIN, clock=clock)
    (tmp_path / "file").write_text("")
    with pytest.raises(AuthorityUnreadable):
        CertificateAuthority.open(tmp_path / "file", DOMAIN, clock=clock)


def test_the_root_of_another_trust_domain_is_an_error(
    tmp_path: Path, clock: ManualClock, authority: CertificateAuthority
) -> None:
    assert authority.trust_domain == DOMAIN
    with pytest.raises(AuthorityUnreadable, match=r"mesh\.test, and other\.test is needed"):
        CertificateAuthority.open(tmp_path / "ca", "other.test", clock=clock)


def test_an_identity_of_another_trust_domain_is_refused(authority: CertificateAuthority) -> None:
    other = WorkloadIdentity("other.test", "shop", "cart")
    with pytest.raises(RequestRefused):
        authority.issue(other)
    with pytest.raises(RequestRefused):
        authority.sign(build_request(generate_key(), other), other)


def test_a_request_gets_a_chain_for_its_own_key(authority: CertificateAuthority) -> None:
    key = generate_key()
    (certificate,) = certificates(authority.sign(build_request(key, CART), CART))
    assert certificate.public_key() == key.public_key()


def make_request(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, *names: x509.GeneralName) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    "key",
    [ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)],
    ids=["P-384", "RSA 2048"],
)
def test_a_strong_key_that_asks_for_no_name_is_signed(
    authority: CertificateAuthority, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
) -> None:
    assert authority.sign(make_request(key), CART)


URI = x509.UniformResourceIdentifier


@pytest.mark.parametrize(
    "names",
    [
        (URI(str(WEB)),),
        (URI(str(CART)), URI(str(WEB))),
        (URI(str(CART)), x509.DNSName("cart.shop")),
        (x509.DNSName("cart.shop"),),
    ],
    ids=["another", "one more", "a DNS name more", "a DNS name"],
)
def test_a_request_for_other_names_is_refused(
    authority: CertificateAuthority, names: tuple[x509.GeneralName, ...]
) -> None:
    with pytest.raises(RequestRefused, match="asks for other names") as raised:
        authority.sign(make_request(generate_key(), *names), CART)
    assert raised.value.code == "certificate-request-refused"
    assert raised.value.identity == CART


def ed25519_request() -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(ed25519.Ed25519PrivateKey.generate(), None).public_bytes(serialization.Encoding.PEM)


def forged_request() -> bytes:
    """A request whose signature is another key's."""
    own = x509.load_pem_x509_csr(make_request(generate_key())).public_bytes(serialization.Encoding.DER)
    return x509.load_der_x509_csr(own[:-1] + bytes([own[-1] ^ 1])).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    ("request_pem", "why"),
    [
        (make_request(ec.generate_private_key(ec.SECP192R1())), "P-256 or P-384"),
        (make_request(ec.generate_private_key(ec.SECP256K1())), "P-256 or P-384"),
        (make_request(rsa.generate_private_key(65537, 1024)), "1024 bits"),
        (ed25519_request(), "ECDSA or RSA"),
        (forged_request(), "signature"),
        (b"", "unreadable"),
        (b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "unreadable"),
        (b"\x00" * 20_000, "20000 bytes"),
    ],
    ids=["P-192", "secp256k1", "RSA 1024", "Ed25519", "forged", "empty", "no request", "long"],
)
def test_a_request_that_is_weak_or_broken_is_refused(
    authority: CertificateAuthority, request_pem: bytes, why: str
) -> None:
    with pytest.raises(RequestRefused, match=why):
        authority.sign(request_pem, CART)


def accepted(folder: Path, client: Leaf, server: Leaf, *, client_trusts: bytes, server_trusts: bytes) -> bool:
    try:
        handshake(folder, client=client, server=server, client_trusts=client_trusts, server_trusts=server_trusts)
    except ssl.SSLError:
        return False
    return True


@pytest.fixture
def real_clock() -> ManualClock:
    """The TLS library looks at the machine's own clock."""
    import time  # noqa: PLC0415

    return ManualClock(wall=time.time())


def test_two_leaves_shake_hands_and_strangers_do_not(tmp_path: Path, real_clock: ManualClock) -> None:
    ours = CertificateAuthority.open(tmp_path / "ours", DOMAIN, clock=real_clock)
    theirs = CertificateAuthority.open(tmp_path / "theirs", DOMAIN, clock=real_clock)
    bundle = ours.bundle_pem()
    assert accepted(tmp_path, ours.issue(WEB), ours.issue(CART), client_trusts=bundle, server_trusts=bundle)
    assert not accepted(tmp_path, theirs.issue(WEB), ours.issue(CART), client_trusts=bundle, server_trusts=bundle)
    assert not accepted(tmp_path, ours.issue(WEB), theirs.issue(CART), client_trusts=bundle, server_trusts=bundle)


def test_in_a_rotation_old_and_new_accept_each_other_whatever_each_has_heard(
    tmp_path: Path, real_clock: ManualClock
) -> None:
    authority = CertificateAuthority.open(tmp_path / "ca", DOMAIN, clock=real_clock)
    before = (authority.issue(WEB), authority.bundle_pem())
    authority.begin_root_rotation()
    during = (authority.issue(WEB), authority.bundle_pem())
    for client, client_trusts in (before, during):
        for server, server_trusts in (before, during):
            assert accepted(tmp_path, client, server, client_trusts=client_trusts, server_trusts=server_trusts)
    after = certificates(during[1])[0].public_bytes(serialization.Encoding.PEM)
    assert accepted(tmp_path, during[0], during[0], client_trusts=after, server_trusts=during[1])
    assert not accepted(tmp_path, before[0], during[0], client_trusts=during[1], server_trusts=after)


def test_a_rotation_trusts_two_roots_and_ends_with_the_new_one(
    tmp_path: Path, authority: CertificateAuthority, clock: ManualClock
) -> None:
    (old,) = certificates(authority.bundle_pem())
    authority.begin_root_rotation()
    assert authority.is_rotating
    new, also = certificates(authority.bundle_pem())
    assert also == old
    assert new.subject != old.subject
    leaf, cross = certificates(authority.issue(CART).chain_pem)
    leaf.verify_directly_issued_by(new)
    cross.verify_directly_issued_by(old)
    assert len(certificates(authority.sign(build_request(generate_key(), CART), CART))) == 2

    clock.advance(LEAF_LIFETIME_S + CLOCK_SKEW_S)
    authority.finish_root_rotation()
    assert certificates(authority.bundle_pem()) == [new]
    assert len(certificates(authority.issue(CART).chain_pem)) == 1
    reopened = CertificateAuthority.open(tmp_path / "ca", DOMAIN, clock=clock)
    assert reopened.bundle_pem() == authority.bundle_pem()


def test_a_rotation_survives_a_restart_and_the_old_key_is_gone(
    tmp_path: Path, authority: CertificateAuthority, clock: ManualClock
) -> None:
    old_file = (tmp_path / "ca" / FILE_NAME).read_bytes()
    authority.begin_root_rotation()
    reopened = CertificateAuthority.open(tmp_path / "ca", DOMAIN, clock=clock)
    assert reopened.bundle_pem() == authority.bundle_pem()
    assert reopened.is_rotating
    assert old_file.splitlines()[1] not in (tmp_path / "ca" / FILE_NAME).read_bytes()


def test_phases_come_in_order_and_not_too_early(authority: CertificateAuthority, clock: ManualClock) -> None:
    with pytest.raises(RotationRefused):
        authority.finish_root_rotation()
    authority.begin_root_rotation()
    with pytest.raises(RotationRefused) as raised:
        authority.begin_root_rotation()
    assert raised.value.code == "ca-rotation-refused"
    clock.advance(LEAF_LIFETIME_S)
    with pytest.raises(RotationRefused, match="300 s more"):
        authority.finish_root_rotation()


def test_a_rotation_that_cannot_be_written_changes_nothing(tmp_path: Path, authority: CertificateAuthority) -> None:
    bundle = authority.bundle_pem()
    (tmp_path / "ca").rename(tmp_path / "elsewhere")
    with pytest.raises(AuthorityUnreadable):
        authority.begin_root_rotation()
    assert authority.bundle_pem() == bundle
    assert not authority.is_rotating
