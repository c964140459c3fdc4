"""A certificate authority of tests: leaves with a SPIFFE identity, good or expired."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from aether.model.secret import Secret

_PEM = serialization.Encoding.PEM
_LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_EXPIRED = datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)
_FAR_AWAY = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)


class Authority:
    """Signs with a root of its own."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
        builder = _builder(self._name, self._name, self._key.public_key(), until=_FAR_AWAY)
        root = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.root_pem = root.sign(self._key, hashes.SHA256()).public_bytes(_PEM)

    def issue(self, uri: str, *, is_expired: bool = False) -> tuple[bytes, Secret]:
        """A leaf (PEM) and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        until = _EXPIRED if is_expired else _FAR_AWAY
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])
        builder = _builder(x509.Name([]), self._name, key.public_key(), until=until)
        leaf = builder.add_extension(names, critical=True).sign(self._key, hashes.SHA256())
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return leaf.public_bytes(_PEM), Secret(private)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, until: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_LONG_AGO)
        .not_valid_after(until)
    )
