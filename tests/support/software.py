"""Real servers as Deployments: shell scripts that need no more than a Debian package and a folder of their own."""

from collections.abc import Mapping

from tests.support.manifests import deployment

DATA = "/data"
NOBODY = 65534

POSTGRESQL = """
PATH="$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH"
initdb -D /data/db -A trust -U app >/dev/null
echo 'host all all all trust' >>/data/db/pg_hba.conf
exec postgres -D /data/db -c listen_addresses='*' -c unix_socket_directories='' -c fsync=off
"""
MARIADB = """
mariadb-install-db --no-defaults --user=root --datadir=/data/db --skip-test-db >/dev/null
exec mariadbd --no-defaults --user=root --datadir=/data/db --socket=/data/socket --pid-file=/data/pid \
  --skip-grant-tables --bind-address=* --port 3306
"""
REDIS = "exec redis-server --port 6379 --protected-mode no --save '' --dir /data"
SSHD = """
chmod 755 /run/sshd
ssh-keygen -q -N '' -t ed25519 -f /data/key
exec /usr/sbin/sshd -D -e -p 22 -h /data/key -o PidFile=none -o UsePAM=no -o PasswordAuthentication=no
"""
DNS_SERVER = """
for transport in '' --tcp; do
  python3 -m dnslib.fixedresolver --response 'question.test. 60 IN TXT "over the mesh"' --address :: $transport &
done
wait
"""
SMTP = r"""
import socketserver
class Session(socketserver.StreamRequestHandler):
    def say(self, line):
        self.wfile.write(line.encode() + b"\r\n")
    def handle(self):
        self.say("220 mail.test ESMTP")
        text = []
        while verb := self.rfile.readline().split(b" ")[0].strip().upper():
            if verb == b"DATA":
                self.say("354 go on")
                while (line := self.rfile.readline()) not in (b".\r\n", b""):
                    text.append(line)
                self.say(f"250 took {len(text)} lines")
            elif verb == b"QUIT":
                return self.say("221 bye")
            else:
                self.say("250 mail.test")
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
Server(("", 25), Session).serve_forever()
"""


def server(name: str, space: str, script: str, *, declares: str, user: int = 0, folders: tuple[str, ...] = ()) -> str:
    """A Deployment of a shell script with the empty folder `/data`, and others, to itself."""
    mounts = [{"name": f"folder-{number}", "mountPath": path} for number, path in enumerate((DATA, *folders))]
    container: Mapping[str, object] = {
        "name": "main",
        "image": "host",
        "command": ["sh", "-ec", script],
        "volumeMounts": mounts,
        "securityContext": {"runAsUser": user},
    }
    extra = {
        "containers": [container],
        "volumes": [{"name": mount["name"], "emptyDir": {}} for mount in mounts],
        "terminationGracePeriodSeconds": 1,
    }
    return deployment(name, space, [], annotations={"endpoint.aether.io/ports": declares}, extra=extra)
