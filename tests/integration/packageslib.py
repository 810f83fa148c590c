# SPDX-License-Identifier: Apache-2.0
"""A package index and an npm registry on loopback, with packages made here, honest and hostile."""

import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile


def wheel(name, version="1.0", files=None, requires=(), scripts=None):
    """A pure Python wheel: (file name, bytes)."""
    info = f"{name}-{version}.dist-info"
    content = {f"{name}.py": f"VERSION = '{version}'\n"} if files is None else dict(files)
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    content[f"{info}/METADATA"] = meta + "".join(f"Requires-Dist: {r}\n" for r in requires)
    content[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if scripts:
        content[f"{info}/entry_points.txt"] = "[console_scripts]\n" + "".join(f"{k} = {v}\n" for k, v in scripts.items())
    rows = []
    for path, data in content.items():
        data = data.encode() if isinstance(data, str) else data
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}")
    content[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    return f"{name}-{version}-py3-none-any.whl", out.getvalue()


def _tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            data = data.encode()
            entry.size, entry.mode = len(data), 0o755
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def sdist(name, setup, version="1.0"):
    """A source package whose setup.py is ``setup``."""
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    top = f"{name}-{version}"
    return f"{top}.tar.gz", _tar({f"{top}/setup.py": setup, f"{top}/PKG-INFO": meta, f"{top}/{name}.py": ""})


def built(name, code, version="1.0"):
    """A source package whose backend is its own, so that it needs nothing to be built: it executes ``code``,
    whose ``found`` is what the module that comes out says as FOUND."""
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    project = (
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "{name}"\nversion = "{version}"\n'
    )
    backend = (
        "import pathlib, zipfile\n"
        f"found = None\n{code}\n"
        "def build_wheel(directory, config_settings=None, metadata_directory=None):\n"
        f"    file, info = '{name}-{version}-py3-none-any.whl', '{name}-{version}.dist-info'\n"
        "    with zipfile.ZipFile(pathlib.Path(directory, file), 'w') as archive:\n"
        f"        archive.writestr('{name}.py', f'FOUND = {{found!r}}\\n')\n"
        f"        archive.writestr(f'{{info}}/METADATA', {meta!r})\n"
        "        archive.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "        archive.writestr(f'{info}/RECORD', '')\n"
        "    return file\n"
    )
    top = f"{name}-{version}"
    files = {"pyproject.toml": project, "backend.py": backend, "PKG-INFO": meta}
    return f"{top}.tar.gz", _tar({f"{top}/{path}": text for path, text in files.items()})


def npm_package(name, version="1.0.0", files=None, **more):
    """What the registry knows about a package of one version: (name, version, package.json, bytes)."""
    package = {"name": name, "version": version, "main": "index.js", **more}
    content = {"index.js": f"module.exports = '{name} {version}'\n", **(files or {})}
    return name, version, package, _tar({"package/package.json": json.dumps(package), **{f"package/{k}": v for k, v in content.items()}})


class Index:
    """Serves /simple/ and /files/ for pip, and everything else for npm. ``asked`` has the paths."""

    def __init__(self):
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                index.asked.append(self.path)
                index.auth.append(self.headers.get("Authorization"))
                if index.password and not index.auth[-1]:
                    self.answer(401, b"", ("WWW-Authenticate", 'Basic realm="x"'))
                    return
                if index.gate is not None:
                    index.gate.wait(60)
                found = index.pages.get(self.path)
                self.answer(200 if found is not None else 404, found or b"")

            def answer(self, status, data, *headers):
                self.send_response(status)
                for header in headers:
                    self.send_header(*header)
                is_page = "/simple/" in self.path
                self.send_header("Content-Type", "text/html" if is_page else "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self.pages, self.asked, self.auth = {}, [], []
        self.password = None
        self.gate = None  # an event that requests wait for
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    @property
    def env(self):
        who = f"{self.password}@" if self.password else ""
        at = f"http://{who}127.0.0.1:{self.port}"
        return {"PIP_INDEX_URL": f"{at}/simple", "npm_config_registry": f"{at}/"}

    def add(self, file_and_data, host=None):
        """A file of pip's. ``host``: the page says that it lies there."""
        file, data = file_and_data
        name = file.split("-")[0].replace("_", "-")
        self.pages[f"/files/{file}"] = data
        page = self.pages.get(f"/simple/{name}/", b"")
        link = f"{host or ''}/files/{file}#sha256={hashlib.sha256(data).hexdigest()}"
        self.pages[f"/simple/{name}/"] = page + f'<a href="{link}">{file}</a>\n'.encode()
        return hashlib.sha256(data).hexdigest()

    def add_npm(self, package):
        name, version, doc, data = package
        file = f"/{name}/-/{name.split('/')[-1]}-{version}.tgz"
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        dist = {"tarball": f"http://127.0.0.1:{self.port}{file}", "integrity": integrity}
        known = json.loads(self.pages.get(f"/{name}", b'{"versions": {}}'))
        known.update({"name": name, "dist-tags": {"latest": version}})
        known["versions"][version] = {**doc, "dist": dist}
        self.pages[f"/{name}"] = self.pages["/" + name.replace("/", "%2f")] = json.dumps(known).encode()
        self.pages[file] = data
        return integrity
