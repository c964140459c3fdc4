"""Dial a pod's inbound listener as anybody can, and say what came back.

    python3 hop.py ADDRESS SERVER_NAME VERSION SPEAKS < PEM

`VERSION` is `plain`, `1.2` or `1.3`; `SPEAKS` is `h2` (a GET), `raw` (a line) or `nothing`. `PEM` is a key and its
chain, or empty for no certificate. Prints JSON: `received`, the application's bytes as text; `ended`: `closed`,
`cut`, `silent` or the alert.
"""

import contextlib
import json
import socket
import ssl
import sys
import tempfile

import h2.config
import h2.connection
import h2.events

INBOUND_PORT = 18008
WAIT_S = 3.0
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def dial(address: str, server_name: str, version: str, pem: bytes) -> socket.socket:
    plain = socket.create_connection((address, INBOUND_PORT), timeout=WAIT_S)
    if version == "plain":
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = _VERSIONS[version]
    context.set_alpn_protocols(["h2"])
    if pem:
        with tempfile.NamedTemporaryFile() as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(file.name)
    return context.wrap_socket(plain, server_hostname=server_name)


def speak(connection: socket.socket, speaks: str) -> bytes:
    """What the application answered."""
    if speaks == "h2":
        return ask(connection)
    if speaks == "raw":
        connection.sendall(b"hello\n")
    return connection.recv(4096)


def ask(connection: socket.socket) -> bytes:
    client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    client.initiate_connection()
    headers = [(":method", "GET"), (":scheme", "http"), (":authority", "hop"), (":path", "/")]
    client.send_headers(client.get_next_available_stream_id(), headers, end_stream=True)
    connection.sendall(client.data_to_send())
    body = b""
    while data := connection.recv(65536):
        for event in client.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                body += event.data
            if isinstance(event, h2.events.StreamEnded):
                return body
    return body


def main(address: str, server_name: str, version: str, speaks: str) -> None:
    received, ended = b"", "closed"
    try:
        with contextlib.closing(dial(address, server_name, version, sys.stdin.buffer.read())) as connection:
            received = speak(connection, speaks)
    except (ssl.SSLEOFError, ConnectionError):
        ended = "cut"
    except TimeoutError:
        ended = "silent"
    except ssl.SSLError as error:
        ended = error.reason
    sys.stdout.write(json.dumps({"received": received.decode(errors="replace"), "ended": ended}))


if __name__ == "__main__":
    main(*sys.argv[1:])
