# SPDX-License-Identifier: Apache-2.0
"""What the simulated internet serves: certificates, a git repository, package indexes, ssh keys.
Made once for a session, before any namespace exists."""

import base64
import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile
import zipfile

# certificate -> the names in it
CERTIFICATES = {
    "site": ["example.com", "*.example.com"],
    "evil": ["evil.example", "*.evil.example"],
    "rest": [
        "git.example", "pypi.example", "npm.example", "v6only.example", "v4only.example", "hosts.example",
        "chain.example", "truncated.example", "slow.example", "spoofed.example", "localhost",
        "xn--bcher-kva.example", "private.example", "allowed.test", "retry.example",
    ],
}  # fmt: skip
IP_NAMES = ["93.184.216.34", "2606:2800:220:1::1", "127.0.0.1", "10.1.2.3"]


def run(*argv, **kw):
    kw.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([str(a) for a in argv], capture_output=True, check=False, **kw)
    if done.returncode:
        raise RuntimeError(f"{argv}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def certificates(base):
    """One authority (ca.crt) and a certificate for each group of names."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3"]
    run("openssl", "req", "-x509", *key, "-keyout", base / "ca.key", "-out", base / "ca.crt",
        "-subj", "/CN=Simulated Internet", "-addext", "basicConstraints=critical,CA:TRUE",
        "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
    for label, names in CERTIFICATES.items():
        alt = [f"DNS:{n}" for n in names] + ([f"IP:{a}" for a in IP_NAMES] if label == "rest" else [])
        run("openssl", "req", "-x509", *key, "-keyout", base / f"{label}.key", "-out", base / f"{label}.crt",
            "-CA", base / "ca.crt", "-CAkey", base / "ca.key", "-subj", f"/CN={label}",
            "-addext", "basicConstraints=critical,CA:FALSE",
            "-addext", "subjectAltName=" + ",".join(alt))  # fmt: skip


def repository(base, www):
    """A repository that a web server without any program can serve."""
    work, bare = base / "repo-work", www / "git.example" / "repo.git"
    env = {"PATH": os.environ["PATH"], "HOME": str(base), "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": "Tester", f"GIT_{who}_EMAIL": "tester@example.com"}
    work.mkdir()
    (work / "hello.txt").write_text("hello from the repository\n")
    run("git", "init", "-q", "-b", "main", work, env=env)
    run("git", "-C", work, "add", ".", env=env)
    run("git", "-C", work, "commit", "-q", "-m", "first", env=env)
    run("git", "clone", "-q", "--bare", work, bare, env=env)
    run("git", "-C", bare, "update-server-info", env=env)


def wheel(www):
    """tinywheel 1.0 in a simple index at https://pypi.example/simple/."""
    files = {
        "tinywheel/__init__.py": "ANSWER = 42\n",
        "tinywheel-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tinywheel\nVersion: 1.0\n",
        "tinywheel-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text)}\n"
    files["tinywheel-1.0.dist-info/RECORD"] = record + "tinywheel-1.0.dist-info/RECORD,,\n"
    index = www / "pypi.example" / "simple" / "tinywheel"
    index.mkdir(parents=True)
    name = "tinywheel-1.0-py3-none-any.whl"
    with zipfile.ZipFile(index / name, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    digest = hashlib.sha256((index / name).read_bytes()).hexdigest()
    (index / "index.html").write_text(
        f'<!DOCTYPE html><html><body><a href="{name}#sha256={digest}">{name}</a></body></html>'
    )


def npm_package(www):
    """tinypkg 1.0.0 in a registry at https://npm.example/."""
    base = www / "npm.example"
    base.mkdir()
    files = {
        "package/package.json": json.dumps({"name": "tinypkg", "version": "1.0.0", "main": "index.js"}),
        "package/index.js": "module.exports = 42\n",
    }
    with tarfile.open(base / "tinypkg-1.0.0.tgz", "w:gz") as archive:
        for path, text in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    digest = base64.b64encode(hashlib.sha512((base / "tinypkg-1.0.0.tgz").read_bytes()).digest()).decode()
    version = json.loads(files["package/package.json"])
    version["dist"] = {"tarball": "https://npm.example/tinypkg-1.0.0.tgz", "integrity": "sha512-" + digest}
    about = {"name": "tinypkg", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    (base / "tinypkg").mkdir()
    (base / "tinypkg" / "index.html").write_text(json.dumps(about))


def ssh(base, uid):
    """Called by root (of a user namespace at least): a user without a name gets no keys."""
    base = pathlib.Path(base)
    for name in ("host", "user"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", base / f"ssh-{name}")
    (base / "authorized").write_bytes((base / "ssh-user.pub").read_bytes())
    public = (base / "ssh-host.pub").read_text().split()[:2]
    (base / "known_hosts").write_text("ssh.example " + " ".join(public) + "\n")
    (base / "sshd_config").write_text(
        f"""Port 2200
ListenAddress 127.0.0.1
HostKey {base}/ssh-host
PidFile none
AuthorizedKeysFile {base}/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
"""
    )
    # The ids of the tests have no entry on the machine; ssh and sshd ask for one.
    if pathlib.Path("/proc/self/uid_map").read_text().split()[2] != "1":  # the real root
        (base / "sshd.log").touch()
        for name in ("ssh-host", "sshd.log"):
            os.chown(base / name, uid, uid)
    lines = [l for l in pathlib.Path("/etc/passwd").read_text().splitlines() if l.split(":")[2] != str(uid)]
    (base / "passwd").write_text("\n".join(lines) + f"\ntester:x:{uid}:{uid}::{base}:/bin/sh\n")


def make(base):
    base = pathlib.Path(base)
    www = base / "www"
    www.mkdir()
    certificates(base)
    repository(base, www)
    wheel(www)
    npm_package(www)
    (base / "resolv.conf").write_text("nameserver 203.0.113.53\noptions timeout:1 attempts:2\n")
    (base / "hosts").write_text(
        "127.0.0.1 localhost\n::1 localhost\n93.184.216.40 hosts.example\n10.9.9.9 hosts-private.example\n"
    )
