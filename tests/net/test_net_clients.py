# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of the gateway: each works with its rule and not without it."""

import shutil

import pytest
from conftest import LEVELS
from rig import allow

URLLIB = "import urllib.request as u; print(u.urlopen('https://www.example.com/', timeout=10).read().decode())"
THREADS = """
import threading, urllib.request as u
def one(): print(u.urlopen('http://www.example.com/', timeout=10).read().decode(), end='')
threads = [threading.Thread(target=one) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print('done')
"""
ASYNCIO = """
import asyncio, ssl
async def one():
    r, w = await asyncio.open_connection('www.example.com', 443, ssl=ssl.create_default_context())
    w.write(b'GET / HTTP/1.1\\r\\nHost: www.example.com\\r\\nConnection: close\\r\\n\\r\\n')
    return await r.read()
async def main():
    for data in await asyncio.gather(*[one() for _ in range(5)]): print(data.decode())
asyncio.run(main())
"""
FETCH = "fetch('https://www.example.com/').then(r => r.text()).then(console.log, e => { console.log(e); process.exit(1) })"
SSH = (
    "ssh -F none -o UserKnownHostsFile=$PWD/known_hosts -o IdentityFile=$PWD/key -o BatchMode=yes "
    "-o ConnectTimeout=5 tester@ssh.example echo hello from ssh"
)
S_CLIENT = (
    "printf 'GET / HTTP/1.1\\r\\nHost: www.example.com\\r\\nConnection: close\\r\\n\\r\\n' | "
    "openssl s_client -quiet -verify_return_error -servername www.example.com -CAfile ca.crt "
)
SITE, BOTH, DIRECT = ["www.example.com"], LEVELS, LEVELS[:1]
# rules, command, what it prints, at which levels (at landlock: what uses the proxy variables)
CLIENTS = {
    "curl": (SITE, "curl -sS -m 10 --cacert ca.crt https://www.example.com/", "hello from www.example.com", BOTH),
    "curl-http": (SITE, "curl -sS -m 10 http://www.example.com/", "hello from www.example.com", BOTH),
    "curl-six": (["v6only.example"], "curl -sS -m 10 --cacert ca.crt https://v6only.example/", "hello from v6only", BOTH),
    "curl-port": (["db.example:8080"], "curl -sS -m 10 http://db.example:8080/", "hello from db.example", BOTH),
    "curl-socks": (SITE, "curl -sS -m 10 -x socks5h://${ALL_PROXY##*/} --cacert ca.crt https://www.example.com/",
                   "hello from www.example.com", LEVELS[1:]),
    "git": (["git.example"], "cd && git clone -q https://git.example/repo.git r && cat r/hello.txt", "hello from the repo", BOTH),
    "pip": (["pypi.example"], "cd && python3 -m pip -q --disable-pip-version-check --retries 0 --timeout 10 install --target t "
            "--no-cache-dir --index-url https://pypi.example/simple tinywheel && "
            "PYTHONPATH=t python3 -c 'import tinywheel; print(tinywheel.ANSWER)'", "42", BOTH),
    "npm": (["npm.example"], "cd && npm install --fetch-retries=0 --no-audit --no-fund --cafile=$NODE_EXTRA_CA_CERTS "
            "--registry https://npm.example/ tinypkg >/dev/null && node -p 'require(\"tinypkg\")'", "42", DIRECT),
    "urllib": (SITE, f'python3 -c "{URLLIB}"', "hello from www.example.com", BOTH),
    "threads": (SITE, f'python3 -c "{THREADS}"', "hello from www.example.com\n" * 8, BOTH),
    "asyncio": (SITE, f'python3 -c "{ASYNCIO}"', "hello from www.example.com", DIRECT),
    "node": (SITE, f'node -e "{FETCH}"', "hello from www.example.com", DIRECT),
    "s_client": (SITE, S_CLIENT + "-connect www.example.com:443", "hello from www.example.com", DIRECT),
    "s_client-proxy": (SITE, S_CLIENT + "-proxy ${HTTPS_PROXY##*/} -connect www.example.com:443",
                       "hello from www.example.com", LEVELS[1:]),
    "resolver": (SITE, "./resolver www.example.com 80", "hello from www.example.com", DIRECT),
    "ssh": (["ssh.example:22"], SSH, "hello from ssh", DIRECT),
}  # fmt: skip
CASES = [(name, level) for name, entry in CLIENTS.items() for level in entry[3]]


@pytest.fixture
def client(home, net, probes):
    """A caller with what the programs need: the authority's certificate, keys, the static program."""
    home.write(home.work / "resolver", open(probes["resolver"], "rb").read(), 0o755)
    home.write(home.work / "key", (net.base / "ssh-user").read_bytes(), 0o600)
    home.write(home.work / "known_hosts", (net.base / "known_hosts").read_bytes())
    names = ("SSL_CERT_FILE", "GIT_SSL_CAINFO", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
    home.trust = {name: str(home.ca) for name in names}
    return home


def need(name):
    if name == "npm" and not shutil.which("npm"):
        pytest.skip("npm is not installed")


def is_proxied(name):
    return CLIENTS[name][3] == LEVELS[1:]


@pytest.mark.parametrize("name", [n for n in CLIENTS if not is_proxied(n)])
def test_outside(client, name):
    """The positive control of everything below: without a sandbox they all work."""
    need(name)
    _, command, want, _ = CLIENTS[name]
    done = client.outside(["sh", "-c", command], env=client.trust)
    assert done.returncode == 0 and want in done.stdout.decode(), done


@pytest.mark.parametrize(("name", "level"), CASES, ids=lambda v: v)
def test_client(client, net, name, level):
    need(name)
    rules, command, want, _ = CLIENTS[name]
    opts = [word for item in client.trust.items() for word in ("-e", "=".join(item))]
    done = client.run([*allow(*rules), *opts], ["sh", "-c", command], level)
    assert done.returncode == 0 and want in done.stdout.decode(), done
    assert net.arrived(), "where did it get that from?"
    # The same with a rule for another host.
    net.forget()
    done = client.run([*allow("v4only.example:22,80,443,8080"), *opts], ["sh", "-c", command], level)
    assert want.split("\n")[0] not in done.stdout.decode(), done
    assert net.arrived() == [] and net.queries() == []
