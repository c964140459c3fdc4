from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509

from aether.adapters.ca import BadLeaf, CertificateAuthority, CsrSource, LocalSource, SignedChain
from aether.adapters.ca.certificates import Life, build_leaf, build_root, certificates_pem, generate_key
from aether.adapters.ca.request import build_request
from aether.adapters.ca.source import Sign
from aether.adapters.clock import ManualClock
from aether.model.identity import WorkloadIdentity

DOMAIN = "mesh.test"
CART = WorkloadIdentity(DOMAIN, "shop", "cart")
WEB = WorkloadIdentity(DOMAIN, "shop", "web")


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority.open(tmp_path / "ca", DOMAIN, clock=ManualClock())


def signing(answer: Callable[[WorkloadIdentity, bytes], SignedChain]) -> Sign:
    async def sign(identity: WorkloadIdentity, csr_pem: bytes) -> SignedChain:
        return answer(identity, csr_pem)

    return sign


async def test_a_local_leaf_is_the_authoritys(authority: CertificateAuthority) -> None:
    leaf = await LocalSource(authority).leaf(CART)
    assert leaf.identity == CART
    assert leaf.bundle_pem == authority.bundle_pem()


async def test_a_key_made_here_is_signed_elsewhere(authority: CertificateAuthority) -> None:
    seen: list[bytes] = []

    def answer(identity: WorkloadIdentity, csr_pem: bytes) -> SignedChain:
        seen.append(csr_pem)
        return SignedChain(chain_pem=authority.sign(csr_pem, identity), bundle_pem=authority.bundle_pem())

    leaf = await CsrSource(signing(answer)).leaf(CART)
    assert leaf.identity == CART
    assert b"PRIVATE" not in seen[0]
    assert b"PRIVATE" in leaf.key.reveal()


async def test_what_was_not_asked_for_is_not_taken(tmp_path: Path, authority: CertificateAuthority) -> None:
    bundle = authority.bundle_pem()
    stranger = CertificateAuthority.open(tmp_path / "other", DOMAIN, clock=ManualClock()).bundle_pem()
    other_key = authority.sign(build_request(generate_key(), CART), CART)

    answers: list[Callable[[WorkloadIdentity, bytes], SignedChain]] = [
        lambda _identity, _csr: SignedChain(chain_pem=b"", bundle_pem=bundle),
        lambda _identity, _csr: SignedChain(chain_pem=other_key, bundle_pem=bundle),
        lambda _identity, _csr: SignedChain(chain_pem=bundle, bundle_pem=bundle),
        lambda _identity, csr: SignedChain(chain_pem=authority.sign(csr, CART), bundle_pem=b""),
        lambda _identity, csr: SignedChain(chain_pem=authority.sign(csr, CART), bundle_pem=stranger),
    ]
    for answer in answers:
        with pytest.raises(BadLeaf) as raised:
            await CsrSource(signing(answer)).leaf(CART)
        assert raised.value.code == "bad-leaf"


async def test_the_leaf_of_somebody_else_is_not_taken() -> None:
    root = build_root(DOMAIN, now=1_700_000_000.0)
    life = Life(1_700_000_000.0, 1_700_000_600.0)

    def answer(_: WorkloadIdentity, csr_pem: bytes) -> SignedChain:
        leaf = build_leaf(x509.load_pem_x509_csr(csr_pem).public_key(), WEB, life, by=root)
        return SignedChain(chain_pem=certificates_pem([leaf]), bundle_pem=certificates_pem([root.certificate]))

    with pytest.raises(BadLeaf, match=f"got {WEB}"):
        await CsrSource(signing(answer)).leaf(CART)
