"""A real mutual TLS 1.3 handshake between two leaves, in memory: what the other end's TLS library thinks of a chain."""

import ssl
from pathlib import Path

from aether.adapters.ca import Leaf


def handshake(folder: Path, *, client: Leaf, server: Leaf, client_trusts: bytes, server_trusts: bytes) -> None:
    """Raises ssl.SSLError when one end does not accept the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    calling = _context(ssl.PROTOCOL_TLS_CLIENT, client, client_trusts, folder)
    serving = _context(ssl.PROTOCOL_TLS_SERVER, server, server_trusts, folder)
    ends = [
        calling.wrap_bio(to_client, to_server),
        serving.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


def _context(protocol: int, leaf: Leaf, trusted_pem: bytes, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=trusted_pem.decode())
    path = folder / "presented.pem"
    path.write_bytes(leaf.key.reveal() + leaf.chain_pem)
    context.load_cert_chain(path)
    return context
