# SPDX-License-Identifier: Apache-2.0
"""--with: packages that are installed once, in a sandbox of their own, and shown to later runs."""

import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import threading
import time

import pytest

from conftest import LEVELS, PATH, ceiling, needs_landlock_net, unavailable
from packageslib import Index, npm_package, sdist, wheel

PYTHON = "/usr/bin/python3"


@pytest.fixture
def index():
    made = Index()
    yield made
    made.close()


@pytest.fixture(params=LEVELS)
def level(request, me):
    if request.param == "landlock":
        needs_landlock_net()
    if not me.can(request.param):
        unavailable(f"level {request.param} does not work here")
    return request.param


@pytest.fixture
def use(me, index):
    """Runs a command with packages of the index."""
    probe = me.outside([PYTHON, "-I", "-m", "pip", "--version"])
    if probe.returncode != 0 and not list(pathlib.Path("/usr/share/python-wheels").glob("pip-*.whl")):
        unavailable("there is no pip")

    def run(opts, cmd, level=None, env=None, **kw):
        return me.run(opts, cmd, level, env={**index.env, **(env or {})}, **kw)

    return run


def cache(me):
    return me.home / ".cache/cordon/packages"


def layers(me):
    return sorted(p.name for p in cache(me).iterdir() if p.name[:4] in ("pip-", "npm-")) if cache(me).exists() else []


def left_over(me):
    return [p.name for p in cache(me).iterdir() if p.name.startswith(".")]


def listed(me):
    done = me.outside([me.cordon, "cache", "list", "--json"])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def python(code, *args):
    return [PYTHON, "-c", code, *args]


# --- what works ----------------------------------------------------------------------------------


def test_a_package(me, use, index, level):
    index.add(wheel("one", requires=["two"]))
    digest = index.add(wheel("two", "2.5"))
    done = use(["--with", "one==1.0"], python("import one, two; print(one.VERSION, two.VERSION)"), level)
    assert (done.returncode, done.stdout) == (0, b"1.0 2.5\n"), done
    [layer] = listed(me)
    assert layer["manifest"]["wanted"] == ["one==1.0"] and not layer["in_use"]
    assert {"name": "two", "version": "2.5", "hash": f"sha256:{digest}"} in layer["manifest"]["packages"]
    assert layer["bytes"] > 0 and abs(layer["used"] - time.time()) < 3600
    assert stat.S_IMODE(os.stat(cache(me)).st_mode) == 0o700 and left_over(me) == []
    for path in cache(me).rglob("tree/**/*"):
        assert path.lstat().st_uid == me.uid and not path.lstat().st_mode & 0o222, path


def test_the_second_run_asks_nobody(me, use, index, level):
    index.add(wheel("one"))
    assert use(["--with", "one"], python("import one"), level).returncode == 0
    asked = len(index.asked)
    index.close()
    # The same wish in another way of writing it.
    done = use(["--with", " One "], python("import one; print(one.__file__)"), level)
    assert done.returncode == 0 and len(index.asked) == asked, done
    assert done.stdout.decode().startswith(str(cache(me))) and len(layers(me)) == 1


def test_programs_of_packages(use, index, level):
    index.add(wheel("tool", files={"tool.py": "def main(): print('tool runs')\n"}, scripts={"cordon-tool": "tool:main"}))
    done = use(["--with", "tool"], ["cordon-tool"], level)
    assert (done.returncode, done.stdout) == (0, b"tool runs\n"), done
    done = use(["--with", "tool"], ["sh", "-c", "cordon-tool; echo $PYTHONPATH"], level)
    assert done.stdout.startswith(b"tool runs\n/"), done


def test_the_callers_pythonpath_comes_after(me, use, index):
    index.add(wheel("one"))
    lib = me.mkdir("lib")
    me.write(lib / "one.py", "VERSION = 'mine'")
    me.write(lib / "mine.py")
    code = python("import one, mine; print(one.VERSION)")
    done = use(["-r", lib, "--with", "one", "-e", f"PYTHONPATH={lib}"], code)
    assert (done.returncode, done.stdout) == (0, b"1.0\n"), done
    done = use(["-r", lib, "--with", "one", "-e", "PYTHONPATH"], code, env={"PYTHONPATH": str(lib)})
    assert (done.returncode, done.stdout) == (0, b"1.0\n"), done


def test_isolated_python_does_not_look_there(use, index):
    """python3 -I ignores PYTHONPATH: said in docs/packages.md."""
    index.add(wheel("one"))
    assert use(["--with", "one"], [PYTHON, "-I", "-c", "import one"]).returncode == 1


def test_a_virtual_environment(me, use, index):
    """The layer is made by the system's interpreter that its link leads to."""
    index.add(wheel("one"))
    venv = me.base / "venv"
    me.outside([PYTHON, "-m", "venv", "--without-pip", venv], check=True)
    done = use(["--with", "one"], [venv / "bin/python", "-c", "import one, sys; print(sys.prefix)"])
    assert (done.returncode, done.stdout.decode().strip()) == (0, str(venv)), done
    done = use(["--with", "one"], ["venv/bin/python", "-c", "import one"], cwd=str(me.base))
    assert done.returncode == 0 and len(layers(me)) == 1, done


def test_dry_run_installs_nothing(me, use, index):
    index.add(wheel("one"))
    done = use(["--dry-run", "--with", "one"], python("1"))
    assert done.returncode == 125 and b"without --dry-run" in done.stderr and layers(me) == []
    assert use(["--with", "one"], python("1")).returncode == 0
    done = use(["--dry-run", "--with", "one"], python("1"))
    assert done.returncode == 0 and str(cache(me)).encode() in done.stdout


# --- what goes wrong -----------------------------------------------------------------------------


def test_errors_of_the_installer(me, use, index, level):
    done = use(["--with", "nosuch==3"], python("print('ran')"), level)
    assert done.returncode == 125 and done.stdout == b"", done
    lines = done.stderr.decode().splitlines()
    assert any("No matching distribution found for nosuch==3" in line for line in lines[:-1])
    assert lines[-1].startswith("cordon: pip cannot install the packages: No matching distribution")
    assert "--with-build" in lines[-1]
    assert layers(me) == [] and left_over(me) == []
    assert listed(me) == []


# What pip would take for an option, the end of a line or a variable in the middle of a requirement.
INJECTIONS = [
    'one; python_version>"3" --no-binary=:all:', 'one; python_version>"3" --global-option=build', "one -e .", "one --pre",
    'one; python_version>"3"\t--no-binary=:all:', *(f"one{c}--no-binary=:all:" for c in "\v\f\x1c\x1d\x1e\x85\u2028\u2029\r\t\x7f"),
    "one==${VERSION}", "one==1.${PIP_INDEX_URL}", "one\\", "one; python_version>'3' -", "on\xe9",
]  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("spec", [
    "-r", "--index-url=http://x", "./one", "/tmp/one", "one @ http://127.0.0.1/one.whl", "git+https://x/y", "",
    "npm:", "npm:../one", "npm:one@file:../x", "npm:one@http://x/y", "npm:@one", "npm:-g", "one\n--pre",
    "npm:one@.", "npm:one@..", "npm:one@ .x", "npm:one@x.tgz", "one two", "one _two==1.0", *INJECTIONS,
])  # fmt: skip
def test_only_names_are_taken(me, use, spec):
    done = use(["--with", spec], python("1"))
    assert done.returncode == 125 and b"cannot be installed" in done.stderr and done.stderr.count(b"\n") == 1, done
    assert layers(me) == []


@pytest.mark.once
@pytest.mark.parametrize("line", [
    "--index-url http://x", "-r other.txt", "-e .", "./one", "one --global-option=x",
    *(line for line in INJECTIONS if line[-1] != "\\"), *(line + f" --hash=sha256:{64 * '0'}" for line in INJECTIONS),
    *(f"one==1 --hash=sha256:{64 * '0'}{end}" for end in (
        "\f--no-binary :all:", "\v--pre", "\t--pre", "\x1c--pre", "\x85--pre", "\u2028--pre", " -e .", " x", "${HOME}")),
    "one==1 --hash=sha256:", "one==1 --hash=sha256:0g", "one==1 --hash=:00", "one==1 --hash=sha256:00,--pre",
    "one @ file:x --hash=sha256:00", "one==1 --hash sha256:00 --pre",
])  # fmt: skip
def test_options_in_files_are_refused(me, use, line):
    file = me.write(me.work / "r.txt", f"two\n{line}\n")
    done = use(["--with-file", file], python("1"))
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1 and layers(me) == [], done


def test_no_pip(me, use, index):
    if me.uid != 0:
        pytest.skip("hides the system's pip, which only root can")
    hide = "for d in $(ls -d /usr/lib/python3*/*-packages /usr/local/lib/python3*/*-packages "
    hide += "/usr/lib/python3*/ensurepip/_bundled /usr/share/python-wheels 2>/dev/null); "
    hide += 'do mount -t tmpfs none $d || exit 9; done; exec "$@"'
    argv = me.argv(["--with", "one"], python("1"))
    done = me.outside(["unshare", "-m", "sh", "-c", hide, "sh", *argv], env=index.env)
    if done.returncode == 9:
        unavailable("nothing can be mounted")
    assert done.returncode == 125 and b"has no pip (install python3-pip" in done.stderr, done


def test_another_program_is_no_interpreter(me, use, index):
    link = me.base / "python3"
    link.symlink_to("/bin/sh")
    done = use(["--with", "one"], [link, "-c", "1"])
    assert done.returncode == 125 and b"does not say which Python it is" in done.stderr and layers(me) == [], done


def test_no_npm(me, use):
    done = use(["--with", "npm:one"], ["/bin/true"], env={"PATH": "/nonexistent"})
    assert done.returncode == 127 and b"npm" in done.stderr, done


def test_a_cache_of_others_is_not_used(me, use, index):
    index.add(wheel("one"))
    where = me.base / "shared"
    where.mkdir()
    me.own(where)
    (where / "cordon").mkdir()
    me.own(where / "cordon")
    (where / "cordon/packages").mkdir()
    me.own(where / "cordon/packages")
    os.chmod(where / "cordon/packages", 0o777)
    done = use(["--with", "one"], python("1"), env={"XDG_CACHE_HOME": str(where)})
    assert done.returncode == 125 and b"others can write to" in done.stderr, done


# --- locks and hashes ----------------------------------------------------------------------------


def test_hashes_are_enforced(me, use, index, level):
    digest = index.add(wheel("one"))
    file = me.write(me.work / "locked.txt", f"# locked\none==1.0 \\\n    --hash=sha256:{digest}\n")
    done = use(["--with-file", file], python("import one"), level)
    assert done.returncode == 0, done
    assert listed(me)[0]["manifest"]["hashes_enforced"] is True
    wrong = me.write(me.work / "wrong.txt", f"one==1.0 --hash=sha256:{digest[::-1]}\n")
    done = use(["--with-file", wrong], python("import one"), level)
    assert done.returncode == 125 and b"DO NOT MATCH THE HASHES" in done.stderr, done
    # What is not locked does not get in beside what is.
    index.add(wheel("two"))
    part = me.write(me.work / "part.txt", f"one==1.0 --hash=sha256:{digest}\ntwo==1.0\n")
    assert use(["--with-file", part], python("1"), level).returncode == 125
    assert len(layers(me)) == 1


# --- hostile packages ----------------------------------------------------------------------------


def test_source_packages_do_not_run(me, use, index, level):
    """setup.py would run code: only if that was asked for, and in the installer's sandbox."""
    mark = me.out / "mark"
    setup = (
        "import os, socket\n"
        f"for path in ({str(mark)!r}, 'mark'):\n"
        "    try: open(path, 'w').close()\n"
        "    except OSError: pass\n"
        f"print(open({str(me.out / 'key')!r}).read() if os.path.exists({str(me.out / 'key')!r}) else 'unseen')\n"
        "from setuptools import setup\nsetup(name='evil', version='1.0', py_modules=['evil'])\n"
    )
    me.write(me.out / "key", "s3cret")
    file, data = sdist("evil", setup)
    index.add((file, data))
    outside = me.base / "evil"
    outside.mkdir()
    me.own(outside)
    me.write(outside / "setup.py", setup)
    me.outside([PYTHON, "setup.py", "--version"], cwd=str(outside))
    assert mark.exists(), "the positive control"
    mark.unlink()
    done = use(["--with", "evil"], python("1"), level)
    assert done.returncode == 125 and b"--with-build" in done.stderr, done
    assert not mark.exists() and not any(f"/files/{file}" in path for path in index.asked)
    # Asked for, it runs where there are tools to build it, and reaches nothing.
    done = use(["--with-build", "--with", "evil", "-v"], python("1"), level)
    assert not mark.exists() and b"s3cret" not in done.stderr, done


def test_names_that_lead_out(me, use, index, level):
    for i, name in enumerate(["../../outside/mark", "../mark", str(me.out / "mark")]):
        index.add(wheel(f"climb{i}", files={name: "x", f"climb{i}.py": ""}))
        use(["--with", f"climb{i}"], python(f"import climb{i}"), level)
    assert list(me.out.iterdir()) == []
    assert not [p for p in me.home.rglob("*mark*")], "nothing lies beside a tree"


def test_pth_files_do_not_run(me, use, index, level):
    """A .pth file is code that site runs at each start: not for directories in PYTHONPATH."""
    index.add(wheel("pth", files={"pth.py": "", "pth.pth": "import sys; sys.stderr.write('pth ran')\n"}))
    done = use(["--with", "pth"], python("import pth; print('fine')"), level)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"fine\n", b""), done
    [tree] = cache(me).glob("pip-*/tree")
    control = me.outside([PYTHON, "-c", f"import site; site.addsitedir({str(tree)!r})"])
    assert b"pth ran" in control.stderr


def test_the_installer_reaches_the_index_only(me, use, index, level):
    """The page leads to another server of this machine, which would answer."""
    other = Index()
    try:
        file = wheel("one")
        other.add(file)
        index.add(file, host=f"http://127.0.0.1:{other.port}")
        control = me.outside([PYTHON, "-c", f"import urllib.request as u; u.urlopen('http://127.0.0.1:{other.port}/files/{file[0]}')"])
        assert control.returncode == 0 and len(other.asked) == 1
        done = use(["--with", "one"], python("1"), level)
        assert done.returncode == 125 and len(other.asked) == 1, done
        # Unless it is named.
        done = use(["--with", "one"], python("import one"), level, env={"CORDON_PACKAGE_HOSTS": f"localhost:{other.port}"})
        assert done.returncode == 0 and len(other.asked) > 1, done
    finally:
        other.close()


def test_no_secrets_inside(me, use, index, level):
    """Neither the environment nor files of the home: the code of a package says what it saw."""
    me.write(me.home / "token", "s3cret")
    index.add(wheel("one"))
    done = use(["-v", "--with", "one"], ["/usr/bin/env"], level, env={"TOKEN": "s3cret"})
    assert done.returncode == 0 and b"s3cret" not in done.stdout + done.stderr, done
    for path in cache(me).rglob("*"):
        if path.is_file():
            assert b"s3cret" not in path.read_bytes(), path


def test_the_password_of_the_index(me, use, index, level):
    """It gets to the index, and is nowhere else: not in messages, manifest or key."""
    index.password = "ada:pass-w0rd"
    index.add(wheel("one"))
    done = use(["-v", "--with", "one"], python("import one, os; print(os.environ)"), level)
    assert done.returncode == 0 and index.auth[-1], done
    bad = use(["-v", "--with", "nosuch"], python("1"), level)
    assert bad.returncode == 125
    for said in (done.stdout, done.stderr, bad.stderr, json.dumps(listed(me)).encode()):
        assert b"pass-w0rd" not in said, said
    for path in cache(me).rglob("*"):
        if path.is_file():
            assert b"pass-w0rd" not in path.read_bytes(), path
    refused = use(["--with-build", "--with", "one"], python("1"), level)
    assert refused.returncode == 125 and b"has a password" in refused.stderr
    # Another password is the same index.
    index.password = "ada:other"
    asked = len(index.asked)
    assert use(["--with", "one"], python("import one"), level).returncode == 0 and len(index.asked) == asked


# --- hostile interpreters ------------------------------------------------------------------------

EVIL_ANSWER = "cordon cpython 3.11 cpython-311-x86_64-linux-gnu linux-x86_64\\nindex http://localhost:{port}/simple localhost"


def evil_venv(me, mark, port):
    """A virtual environment as a run that may write to its project can leave it: all that runs when its
    interpreter starts or its pip is imported tells the environment, and makes another "one"."""
    venv = me.work / "venv"
    me.outside([PYTHON, "-m", "venv", "--without-pip", venv], check=True)
    [site] = venv.glob("lib/python3*/site-packages")
    tell = f"import os; open({str(mark)!r}, 'a').write('ran %s\\n' % os.environ.get('PIP_INDEX_URL'))"
    main = f"{tell}\nopen('layer/one.py', 'w').write('VERSION = %r' % ('evil %s' % os.environ.get('PIP_INDEX_URL')))\n"
    plant = {
        "evil.pth": f"import sys; print('{EVIL_ANSWER.format(port=port)}'); exec({tell!r})\n",
        "sitecustomize.py": tell,
        "pip/__init__.py": f"__version__ = '20.0'\n{tell}\n",
        "pip/__main__.py": main,
        "pip/_internal/__init__.py": "",
        "pip/_internal/models/__init__.py": "",
        "pip/_internal/models/index.py": f"class PyPI: simple_url = 'http://localhost:{port}/simple'; file_storage_domain = 'localhost'\n",
    }
    code = "import json, os, sys\nfor path, text in json.loads(sys.argv[2]).items():\n"
    code += "    path = os.path.join(sys.argv[1], path)\n    os.makedirs(os.path.dirname(path), exist_ok=True)\n    open(path, 'w').write(text)\n"
    planted = me.run(["-w", me.work], [PYTHON, "-c", code, site, json.dumps(plant)])
    assert planted.returncode == 0, planted
    return venv


def test_a_hostile_venv_decides_nothing(me, use, index, level):
    """Neither what is in a layer nor which index is asked, and it never sees the password."""
    other = Index()
    try:
        index.password = "ada:pass-w0rd"
        index.add(wheel("one"))
        other.add(wheel("one", files={"one.py": "VERSION = 'evil'\n"}))
        mark = me.out / "mark"
        venv = evil_venv(me, mark, other.port)
        control = me.outside([venv / "bin/python", "-I", "-m", "pip"], env=index.env, cwd=str(me.out))
        assert b"index http://localhost" in control.stdout and b"pass-w0rd" in mark.read_bytes(), control
        mark.unlink()
        done = use(["--with", "one"], [venv / "bin/python", "-S", "-c", "import one; print(one.VERSION)"], level)
        assert (done.returncode, done.stdout) == (0, b"1.0\n"), done
        done = use(["--with", "one"], python("import one; print(one.VERSION)"), level, cwd=str(me.out))
        assert (done.returncode, done.stdout) == (0, b"1.0\n"), done
        # Without a setting the system's own index is the default, not the one that the environment names.
        none = {"PIP_INDEX_URL": "", "npm_config_registry": ""}
        use(["--with", "two", "--dry-run"], [venv / "bin/python", "-c", "1"], level, env=none)
        use(["--with", "two", "--dry-run"], python("1"), level, env=none)
        assert not mark.exists() and other.asked == [] and len(layers(me)) == 1
        for path in cache(me).rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                assert b"evil" not in content and b"pass-w0rd" not in content and b"localhost:" not in content, path
    finally:
        other.close()


def refused_interpreter(done):
    return (
        done.returncode == 125
        and b"packages need an interpreter of the system" in done.stderr
        and done.stderr.count(b"\n") == 1
        and done.stdout == b""
    )


@pytest.mark.parametrize("kind", ["copied", "lies", "linked", "shim"])
def test_only_interpreters_of_the_system(me, use, index, level, kind):
    """One that a run could have replaced may say about itself what it likes: it is not asked."""
    index.add(wheel("one"))
    mark = me.out / "mark"
    where = me.mkdir("work/venv/bin")
    fake = where / "python3"
    lie = f"#!/bin/sh\necho ran >> {mark}\nprintf '{EVIL_ANSWER.format(port=index.port)}\\n'\n"
    if kind == "copied":
        me.write(fake, pathlib.Path(PYTHON).resolve().read_bytes(), 0o755)
    elif kind == "linked":
        me.write(me.base / "elsewhere", lie, 0o755)
        fake.symlink_to(me.base / "elsewhere")
    else:
        me.write(fake, lie, 0o755)
    if kind == "lies":
        assert b"index http://localhost" in me.outside([fake]).stdout and mark.exists(), "the control"
        mark.unlink()
    done = use(["--with", "one"], [fake, "-c", "1"], level)
    assert refused_interpreter(done) and b"/usr/bin/python3" in done.stderr, done
    # Found in PATH.
    done = use(["--with", "one"], ["/bin/true"], level, env={"PATH": f"{where}:{PATH}"})
    assert refused_interpreter(done), done
    assert not mark.exists() and layers(me) == [] and index.asked == []
    assert not cache(me).exists() or not list(cache(me).glob("python-*"))


@pytest.mark.once
@pytest.mark.parametrize("line", ["{venv}/bin/python", "{venv}/bin/tool {venv}/key", "/usr/bin/env {venv}/bin/tool", "/usr/../{venv}/bin/tool", "tool", " "])
def test_scripts_lead_to_the_system_only(me, use, index, line):
    """The installation of a script's interpreter is shown to the run: a package must not choose it."""
    venv = me.base / "venv"
    me.outside([PYTHON, "-m", "venv", "--without-pip", venv], check=True)
    me.write(venv / "key", "s3cret")
    me.write(venv / "bin/tool", pathlib.Path("/bin/cat").read_bytes(), 0o755)
    script = f"#!{line.format(venv=venv)}\nprint(open('{venv}/key').read())\n"
    index.add(wheel("evil", files={"evil.py": "", "evil-1.0.data/scripts/evil-tool": script}))
    index.add(wheel("fine", files={"fine.py": "", "fine-1.0.data/scripts/fine-tool": "#!/usr/bin/env -S sh -u\necho fine\n"}))
    control = me.run([], [me.write(me.base / "evil-tool", f"#!{venv}/bin/python\nprint(open('{venv}/key').read())\n", 0o755)])
    assert control.stdout == b"s3cret\n", control
    done = use(["--with", "evil"], ["evil-tool"])
    assert done.returncode == 125 and b"'evil-tool' leads to files that are not the system's" in done.stderr, done
    assert b"s3cret" not in done.stdout and layers(me) == [] and left_over(me) == []
    done = use(["--with", "fine"], ["/bin/true"])
    assert done.returncode == 0 and len(layers(me)) == 1, done


def test_an_interpreter_that_the_run_can_write(me, use, index):
    if me.uid != 0:
        pytest.skip("only root may grant /usr/bin")
    index.add(wheel("one"))
    for grant in ("/usr/bin", str(pathlib.Path(PYTHON).resolve())):
        done = use(["-w", grant, "--with", "one"], python("1"))
        assert refused_interpreter(done) and b"can write to it" in done.stderr, done
    assert layers(me) == []


def test_interpreters_that_others_can_change(me, use, index):
    """Below /opt, but not root's alone. Only root can make such a thing."""
    if os.getuid() != 0:
        pytest.skip("needs root to prepare it")
    import tempfile

    index.add(wheel("one"))
    where = pathlib.Path(tempfile.mkdtemp(prefix="cordon-test-", dir="/opt"))
    try:
        own = where / "python3"
        shutil.copy(pathlib.Path(PYTHON).resolve(), own)
        for dir_mode, file_mode, owner in ((0o777, 0o755, 0), (0o775, 0o755, 0), (0o755, 0o775, 0), (0o755, 0o757, 0), (0o755, 0o755, 20009)):
            os.chmod(where, dir_mode)
            os.chown(own, owner, owner)
            os.chmod(own, file_mode)
            done = use(["--with", "one"], [own, "-c", "1"])
            assert refused_interpreter(done) and b"others than root" in done.stderr, (dir_mode, file_mode, done)
        assert layers(me) == []
    finally:
        shutil.rmtree(where)


# --- nobody changes a layer ----------------------------------------------------------------------

ATTACK = """
import os, sys, shutil
tree = sys.argv[1]
def attempt(name, call):
    try:
        call()
        print('DID', name)
    except OSError as error:
        print('refused', name, error.errno)
attempt('write', lambda: open(tree + '/one.py', 'w').write('evil'))
attempt('append', lambda: open(tree + '/one.py', 'a').write('evil'))
attempt('new', lambda: open(tree + '/evil.py', 'w').write('evil'))
attempt('chmod', lambda: os.chmod(tree + '/one.py', 0o777))
attempt('chmod dir', lambda: os.chmod(tree, 0o777))
attempt('unlink', lambda: os.unlink(tree + '/one.py'))
attempt('rename', lambda: os.rename(tree + '/one.py', tree + '/two.py'))
attempt('rename tree', lambda: os.rename(tree, tree + '-old'))
attempt('rename layer', lambda: os.rename(os.path.dirname(tree), os.path.dirname(tree) + 'x'))
attempt('manifest', lambda: open(os.path.dirname(tree) + '/manifest.json', 'w').write('{}'))
attempt('truncate', lambda: os.truncate(tree + '/one.py', 0))
attempt('link', lambda: os.link(tree + '/one.py', tree + '/link.py'))
attempt('poison', lambda: os.mkdir(os.path.dirname(os.path.dirname(tree)) + '/pip-' + 40 * 'a'))
"""


def snapshot(me):
    return {
        str(p): (p.lstat().st_mode, p.read_bytes() if p.is_file() else None)
        for p in cache(me).rglob("*")
        if not p.name.startswith("lock-")
    }


def did(done):
    return {line[4:] for line in done.stdout.decode().splitlines() if line.startswith("DID ")}


@pytest.mark.parametrize("grant", ["none", "home", "cache"])
def test_a_guest_cannot_change_it(me, use, index, level, grant):
    index.add(wheel("one"))
    assert use(["--with", "one"], python("import one"), level).returncode == 0
    [tree] = cache(me).glob("pip-*/tree")
    before = snapshot(me)
    grants = {"none": [], "home": ["-w", me.home], "cache": ["-w", me.home / ".cache"]}[grant]
    env = {"XDG_STATE_HOME": str(me.base / "state")}
    done = use([*grants, "--with", "one"], python(ATTACK, tree), level, env=env)
    if grant != "none" and level == "landlock":
        assert done.returncode == 125 and b"where packages are kept" in done.stderr, done
    else:
        assert done.returncode == 0 and b"refused write" in done.stdout, done
        # Without a grant the directories above the layer are the run's own, in memory.
        own = {"rename layer", "poison"} if grant == "none" and level == "namespaces" else set()
        assert did(done) <= own, done
        # Nor a run without packages.
        done = use(grants, python(ATTACK, tree), level, env=env)
        assert done.returncode == 0 and did(done) == set(), done
    assert snapshot(me) == before
    # The control: it is the owner's to change, outside.
    control = me.outside(python(ATTACK, tree))
    assert b"DID chmod" in control.stdout and b"DID poison" in control.stdout


def test_the_cache_cannot_be_granted(me, use, index, level):
    index.add(wheel("one"))
    assert use(["--with", "one"], python("import one"), level).returncode == 0
    [tree] = cache(me).glob("pip-*/tree")
    for path in (tree, tree.parent, cache(me)):
        done = use(["-w", path], ["/bin/true"], level)
        assert done.returncode == 125 and b"packages" in done.stderr, (path, done)


def test_a_cache_that_is_missing_cannot_be_made(me, use, level):
    """A run that writes to the home must not plant a layer for later ones."""
    me.mkdir("home/.cache")
    done = use(["-w", me.home], ["/bin/mkdir", "-p", cache(me) / ("pip-" + 40 * "a")], level,
               env={"XDG_STATE_HOME": str(me.base / "state")})
    assert done.returncode != 0 and not cache(me).exists(), done


def test_a_link_to_another_cache_is_not_followed(me, use, index):
    """A command that could write to the home may have left one, with a layer behind it."""
    index.add(wheel("one"))
    elsewhere = me.mkdir("elsewhere")
    os.symlink(elsewhere, me.home / ".cache")
    done = use(["--with", "one"], python("1"))
    assert done.returncode == 125 and b"a link that a command may have made" in done.stderr, done
    assert list(elsewhere.iterdir()) == [] or not list(elsewhere.rglob("pip-*"))
    assert use(["--with", "one"], python("import one"), env={"XDG_CACHE_HOME": str(elsewhere)}).returncode == 0


def test_both_caches_are_protected(me, use, index, level):
    """A run with XDG_CACHE_HOME must not plant a layer for one without it."""
    me.mkdir("home/.cache")
    env = {"XDG_STATE_HOME": str(me.base / "state"), "XDG_CACHE_HOME": str(me.base / "cache")}
    done = use(["-w", me.home], ["/bin/mkdir", "-p", cache(me) / ("pip-" + 40 * "a")], level, env=env)
    assert done.returncode != 0 and not cache(me).exists(), done


# --- size ----------------------------------------------------------------------------------------


@pytest.mark.once
def test_a_bomb_is_ended(me, index, use, level):
    """1 GiB of zeros in a small wheel, with room for 256 MiB."""
    size = 1 << 30
    file, data = wheel("bomb", files={"bomb.py": "", "zeros.bin": bytes(size)})
    index.add((file, data))
    done = use(["--with", "bomb"], python("1"), level, env={"CORDON_PACKAGE_SPACE": "256M"}, timeout=300)
    assert done.returncode == 125 and b"cannot install the packages" in done.stderr, done
    assert layers(me) == [] and left_over(me) == []


# --- at the same time, and interrupted -----------------------------------------------------------


def test_one_installs_the_others_wait(me, use, index):
    index.add(wheel("one"))
    index.gate = threading.Event()
    env = index.env
    argv = me.argv(["--with", "one"], python("import one; print('ok')"))
    runs = [me.popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) for _ in range(4)]
    time.sleep(1)
    index.gate.set()
    for run in runs:
        out, err = run.communicate(timeout=60)
        assert (run.returncode, out) == (0, b"ok\n"), err
    assert index.asked.count("/files/one-1.0-py3-none-any.whl") == 1
    assert len(layers(me)) == 1 and left_over(me) == []


def test_a_killed_installation_counts_for_nothing(me, use, index):
    index.add(wheel("one"))
    index.gate = threading.Event()
    argv = me.argv(["--with", "one"], python("import one"))
    run = me.popen(argv, env=index.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    end = time.monotonic() + ceiling(30)
    while not index.asked and time.monotonic() < end:
        time.sleep(0.05)
    assert index.asked
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=30)
    assert layers(me) == [] and left_over(me) != []
    index.gate.set()
    done = use(["--with", "one"], python("import one"))
    assert done.returncode == 0 and len(layers(me)) == 1 and left_over(me) == [], done


# --- cache list, cache gc ------------------------------------------------------------------------


def gc(me, *opts):
    done = me.outside([me.cordon, "cache", "gc", *opts])
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_gc(me, use, index):
    assert gc(me) == "nothing to remove\n" and me.outside([me.cordon, "cache", "list"]).stdout == b""
    index.add(wheel("one"))
    index.add(wheel("two"))
    for name in ("one", "two"):
        assert use(["--with", name], python("1")).returncode == 0
    text = me.outside([me.cordon, "cache", "list"]).stdout.decode().splitlines()
    assert len(text) == 3 and text[0].split()[:2] == ["KEY", "SIZE"]
    assert gc(me) == "nothing to remove\n" and len(layers(me)) == 2
    old = next(layer for layer in listed(me) if layer["manifest"]["wanted"] == ["one"])
    os.utime(cache(me) / f"lock-{old['key']}", (0, time.time() - 40 * 86400))
    assert gc(me, "--dry-run").startswith(f"would remove {old['key'][:12]}: one\n") and len(layers(me)) == 2
    assert gc(me).startswith("removed ") and [p["manifest"]["wanted"] for p in listed(me)] == [["two"]]
    found = json.loads(gc(me, "--json", "--older-than", "0s"))
    assert found["removed"] == 1 and layers(me) == []
    assert [p.name for p in cache(me).iterdir() if not p.name.startswith("python-")] == []


def test_gc_leaves_what_is_in_use(me, use, index):
    index.add(wheel("one"))
    code = "import one, sys; print('up', flush=True); sys.stdin.read(); import one; print('still', flush=True)"
    run = me.popen(me.argv(["--with", "one"], python(code)), env=index.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert run.stdout.readline() == b"up\n"
    assert listed(me)[0]["in_use"] is True
    assert gc(me, "--older-than", "0s") == "nothing to remove\n"
    out, _ = run.communicate(b"", timeout=30)
    assert out == b"still\n" and listed(me)[0]["in_use"] is False
    assert gc(me, "--older-than", "0s").startswith("removed ")


def test_gc_removes_what_was_interrupted(me, use, index):
    index.add(wheel("one"))
    assert use(["--with", "one"], python("1")).returncode == 0
    half = me.mkdir("home/.cache/cordon/packages/.new-pip-" + 40 * "b")
    me.write(half / "x")
    gc(me)
    assert not half.exists() and len(layers(me)) == 1


# --- npm -----------------------------------------------------------------------------------------


@pytest.fixture
def npm(index):
    if not all(shutil.which(name, path=PATH) for name in ("node", "npm")):
        pytest.skip("node and npm are not installed")
    return index


def test_npm(me, use, npm, level):
    npm.add_npm(npm_package("first", dependencies={"second": "^2"}))
    integrity = npm.add_npm(npm_package("second", "2.1.0"))
    done = use(["--with", "npm:first@1"], ["node", "-e", "console.log(require('first'), require('second'))"], level)
    assert (done.returncode, done.stdout) == (0, b"first 1.0.0 second 2.1.0\n"), done
    [layer] = listed(me)
    assert layer["manifest"]["installer"] == "npm"
    assert {"name": "second", "version": "2.1.0", "hash": integrity} in layer["manifest"]["packages"]
    asked = len(npm.asked)
    assert use(["--with", "npm:first@1"], ["node", "-e", "require('first')"], level).returncode == 0
    assert len(npm.asked) == asked


def test_npm_programs_and_scopes(use, npm, level):
    npm.add_npm(npm_package("@ada/tool", files={"cli.js": "#!/usr/bin/env node\nconsole.log('tool runs')\n"}, bin={"ada-tool": "cli.js"}))
    done = use(["--with", "npm:@ada/tool"], ["ada-tool"], level)
    assert (done.returncode, done.stdout) == (0, b"tool runs\n"), done


def test_npm_scripts_do_not_run(me, use, npm, level):
    script = {"postinstall": "node -e \"require('fs').writeFileSync('ran', 'x')\""}
    npm.add_npm(npm_package("evil", scripts=script, hasInstallScript=True))
    assert use(["--with", "npm:evil"], ["node", "-e", "require('evil')"], level).returncode == 0
    assert list(cache(me).rglob("ran")) == []
    assert use(["--with-build", "--with", "npm:evil"], ["node", "-e", "require('evil')"], level).returncode == 0
    assert len(list(cache(me).rglob("ran"))) == 1, "the control"


@pytest.mark.once
def test_npm_lock(me, use, npm, level):
    integrity = npm.add_npm(npm_package("first"))
    package = {"name": "x", "version": "1.0.0", "dependencies": {"first": "1.0.0"}}
    lock = {"name": "x", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": {
        "": package,
        "node_modules/first": {"version": "1.0.0", "resolved": f"http://127.0.0.1:{npm.port}/first/-/first-1.0.0.tgz", "integrity": integrity},
    }}  # fmt: skip
    me.write(me.work / "package.json", json.dumps(package))
    file = me.write(me.work / "package-lock.json", json.dumps(lock))
    done = use(["--with-file", file], ["node", "-e", "console.log(require('first'))"], level)
    assert (done.returncode, done.stdout) == (0, b"first 1.0.0\n"), done
    lock["packages"]["node_modules/first"]["integrity"] = "sha512-" + "A" * 86 + "=="
    me.write(file, json.dumps(lock))
    done = use(["--with-file", "package-lock.json"], ["node", "-e", "1"], level)
    assert done.returncode == 125 and b"EINTEGRITY" in done.stderr, done


def test_npm_errors(me, use, npm, level):
    done = use(["--with", "npm:nosuch"], ["node", "-e", "1"], level)
    last = done.stderr.decode().splitlines()[-1]
    assert done.returncode == 125 and last.startswith("cordon: npm cannot install the packages: "), done
    assert "404" in last and layers(me) == []


@pytest.mark.parametrize("name", ["npm", "node"])
def test_npm_of_a_project_is_not_used(me, use, npm, name):
    """It would get the token, and fill the layer."""
    npm.add_npm(npm_package("first"))
    mark = me.out / "mark"
    where = me.mkdir("work/bin")
    me.write(where / name, f"#!/bin/sh\necho ran >> {mark}\necho http://localhost:1/\n", 0o755)
    done = use(["--with", "npm:first"], ["/bin/true"], env={"PATH": f"{where}:{PATH}"})
    assert refused_interpreter(done) and not mark.exists() and layers(me) == [], done


def test_both(use, npm):
    npm.add(wheel("one"))
    npm.add_npm(npm_package("first"))
    done = use(["--with", "one", "--with", "npm:first"],
               ["sh", "-c", "python3 -c 'import one' && node -e 'console.log(require(\"first\"))'"])
    assert (done.returncode, done.stdout) == (0, b"first 1.0.0\n"), done
