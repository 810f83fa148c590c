# SPDX-License-Identifier: Apache-2.0
"""Everyday programs start and work without flags, from wherever they are installed."""

import os
import pathlib
import pty
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, expect, needs, rows, unavailable

EVERYDAY = {
    "python3": (["python3", "-c", "import ssl, sqlite3, json, ctypes; print('fine')"], b"fine\n"),
    "node": (["node", "-e", "require('crypto'); console.log('fine')"], b"fine\n"),
    "perl": (["perl", "-e", "use POSIX; print qq(fine\\n)"], b"fine\n"),
    "bash": (
        ["bash", "-c", "x=(f i n e); printf %s ${x[@]}; echo; [[ -n $HOME ]] && cat < <(true)"],
        b"fine\n",
    ),
    "sqlite3": (["sqlite3", ":memory:", "select 'fine'"], b"fine\n"),
    "git": (["git", "--version"], None),
    "awk-sed": (
        ["sh", "-c", "echo FINE | tr A-Z a-z | sed s/x/y/ | awk '{print $1}' | sort -u"],
        b"fine\n",
    ),
    "date": (["env", "TZ=Europe/Berlin", "date", "-d", "2024-07-01 12:00 UTC", "+%H"], b"14\n"),
    "whoami": (["sh", "-c", "id -un >/dev/null && echo fine"], b"fine\n"),
    "hostname": (["sh", "-c", "cat /proc/sys/kernel/hostname >/dev/null && echo fine"], b"fine\n"),
    "xargs": (["sh", "-c", "seq 20 | xargs -P4 -n1 true && echo fine"], b"fine\n"),
    "tempfile": (["sh", "-c", "f=$(mktemp) && echo fine > $f && cat $f"], b"fine\n"),
}


@pytest.mark.parametrize("tool", EVERYDAY)
def test_everyday_tool(me, level, tool):
    argv, want = EVERYDAY[tool]
    needs(argv[0])
    if tool == "whoami" and level == "landlock":
        return  # the host's own user database is seen there, and need not know this user
    done = me.run([], argv, level)
    assert done.returncode == 0, done.stderr
    assert want is None or done.stdout == want, done
    assert done.stderr == b"", done.stderr


def test_compile_and_make(me, level):
    me.write(me.work / "x.c", '#include <stdio.h>\nint main(void) { puts("fine"); return 0; }\n')
    me.write(me.work / "Makefile", "all: x\n\t./x\nx: x.c\n\tgcc -O1 -o x x.c\n")
    done = me.run(["-w", me.work], ["make", "-s", "-j2"], level)
    assert done.stdout == b"fine\n", done
    assert os.stat(me.work / "x").st_uid == me.uid


def test_sqlite_file(me, level):
    script = "create table t(a); insert into t values (1),(2); select sum(a) from t;"
    done = me.run(["-w", me.work], ["sqlite3", "x.db", script], level)
    assert done.stdout == b"3\n", done


def test_virtual_environment(me, level):
    """A venv of Debian's python in a project that is read (not written): packages and scripts work."""
    venv = me.work / ".venv"
    me.outside(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
    site = next(venv.glob("lib/python*/site-packages"))
    me.write(site / "mine.py", "x = 'fine'\n")
    me.write(
        venv / "bin" / "tool",
        f"#!{venv}/bin/python\nimport mine, sys\nprint(mine.x, sys.prefix)\n",
        0o755,
    )
    want = f"fine {venv}\n".encode()
    for argv in (
        [venv / "bin" / "tool"],
        [".venv/bin/python", "-c", "import mine, sys; print(mine.x, sys.prefix)"],
    ):
        done = me.run([], argv, level)
        assert done.stdout == want, done
    done = me.run([], ["tool"], level, env={"PATH": f"{venv}/bin:/usr/bin:/bin"})
    assert done.stdout == want, done


def test_venv_below_the_home_directory(me, level):
    """Started from elsewhere: only the venv's own tree is granted, not the home around it."""
    venv = me.home / "venvs" / "a"
    me.outside(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
    me.write(me.home / "secret", "canary")
    me.write(me.home / "venvs" / "secret", "canary")
    script = f"import sys\nfor p in ('{me.home}/secret', '{me.home}/venvs/secret'):\n  try: print(open(p).read())\n  except OSError: pass\nprint('fine', sys.prefix)"
    done = me.run([], [venv / "bin" / "python", "-c", script], level)
    assert done.stdout == f"fine {venv}\n".encode(), done


def fake_installation(me, prefix, name, body):
    bin_dir = prefix / "bin"
    bin_dir.mkdir(parents=True)
    (prefix / "lib").mkdir()
    path = bin_dir / name
    path.write_text(body)
    os.chmod(path, 0o755)
    (prefix / "lib" / "data").write_text("fine\n")
    subprocess.run(["chown", "-R", f"{me.uid}:{me.gid}", str(me.home)], check=True)
    return path


FAKES = {
    "pyenv": ".pyenv/versions/3.12.1",
    "nvm": ".nvm/versions/node/v20.1.0",
    "conda": "miniconda3/envs/x",
    "local": ".local/share/uv/tools/x",
}


@pytest.mark.parametrize("kind", FAKES)
def test_tools_installed_below_home(me, level, kind):
    """The tool sees its own installation, and nothing else of the home directory."""
    prefix = me.home / FAKES[kind]
    body = '#!/bin/sh\ncat "$(dirname "$0")/../lib/data"; cat "$HOME/secret" 2>/dev/null; true\n'
    path = fake_installation(me, prefix, "mytool", body)
    me.write(me.home / "secret", "canary")
    done = me.run([], ["mytool"], level, env={"PATH": f"{path.parent}:/usr/bin:/bin"})
    assert done.stdout == b"fine\n", done
    assert b"canary" in me.outside(["mytool"], env={"PATH": f"{path.parent}:/usr/bin:/bin"}).stdout


def test_tool_in_cargo_bin(me, level):
    """~/.cargo/bin holds single programs beside credentials: the program, and no credentials."""
    bin_dir = me.home / ".cargo" / "bin"
    bin_dir.mkdir(parents=True)
    shutil.copy("/usr/bin/printf", bin_dir / "mytool")
    me.write(me.home / ".cargo" / "credentials.toml", "canary")
    subprocess.run(["chown", "-R", f"{me.uid}:{me.gid}", str(me.home)], check=True)
    env = {"PATH": f"{bin_dir}:/usr/bin:/bin"}
    done = me.run([], ["mytool", "fine"], level, env=env)
    assert done.stdout == b"fine", done
    done = me.run(
        [], ["sh", "-c", "mytool x >/dev/null; cat ~/.cargo/credentials.toml"], level, env=env
    )
    assert b"canary" not in done.stdout


def test_link_in_local_bin(me, level):
    """~/.local/bin/tool -> an installation elsewhere in the home directory."""
    prefix = me.home / "opt" / "tool-1.2"
    fake_installation(
        me, prefix, "mytool", '#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/../lib/data"\n'
    )
    local = me.home / ".local" / "bin"
    local.mkdir(parents=True)
    os.symlink(prefix / "bin" / "mytool", local / "mytool")
    done = me.run([], ["mytool"], level, env={"PATH": f"{local}:/usr/bin:/bin"})
    assert done.stdout == b"fine\n", done


@pytest.mark.skipif(
    not os.path.exists("/root/.pyenv/shims/python3") and not os.environ.get("PYENV_ROOT"),
    reason="needs a real pyenv",
)
def test_real_pyenv(me, level):
    root = pathlib.Path(os.environ.get("PYENV_ROOT", "/root/.pyenv"))
    if me.name != "root":
        pytest.skip("belongs to another user")
    pythons = sorted(root.glob("versions/*/bin/python3"))
    if not pythons:
        unavailable("no version installed")
    script = "import ssl, sqlite3, sys; print(sys.prefix)"
    done = me.run([], [pythons[0], "-c", script], level, env={"HOME": str(root.parent)})
    assert done.stdout.decode().strip() == str(pythons[0].parent.parent), done


# --- the current directory -------------------------------------------------------------------------


def test_current_directory_is_readable(me, level):
    me.write(me.work / "data", "fine\n")
    done = me.run([], ["cat", "data"], level)
    assert done.stdout == b"fine\n"
    done = me.run([], ["sh", "-c", "echo x > planted"], level)
    assert done.returncode != 0 and not (me.work / "planted").exists()


@pytest.mark.parametrize("where", ["home", "above", "root"])
def test_home_as_current_directory(me, level, where):
    """Nothing of it is granted; the command starts in its private home and a terminal is told."""
    me.write(me.home / "secret", "canary")
    cwd = {"home": me.home, "above": me.home.parent, "root": pathlib.Path("/")}[where]
    done = me.run(
        [],
        ["sh", "-c", f"pwd; ls -A; cat secret {me.home}/secret 2>/dev/null; true"],
        level,
        cwd=str(cwd),
    )
    assert done.returncode == 0, done.stderr
    assert b"canary" not in done.stdout and b"secret" not in done.stdout
    lines = done.stdout.decode().splitlines()
    if level == "namespaces":
        assert lines[0] == str(me.home)
    # The note goes to terminals only.
    assert done.stderr == b""
    master, slave = pty.openpty()
    proc = me.popen(
        me.argv([], ["true"], level), cwd=str(cwd), stdin=slave, stdout=slave, stderr=slave
    )
    assert proc.wait(timeout=10) == 0
    os.set_blocking(master, False)
    try:
        told = os.read(master, 4096)
    except BlockingIOError:
        told = b""
    os.close(master)
    os.close(slave)
    assert b"-r ." in told and told.count(b"\n") == 1, told
    done = me.run(["-r", "."], ["cat", "secret"], level, cwd=str(me.home))
    assert done.stdout == b"canary", "asked for, it is granted"


def test_first_command_of_a_newcomer(me, level):
    done = me.run([], ["python3", "-c", "print('hello')"], level, cwd=str(me.home))
    assert done.stdout == b"hello\n", done


# --- only these programs ---------------------------------------------------------------------------


def marker(me, name):
    return me.work / f"ran-{name}"


def test_only_named_commands(me, level):
    done = me.run(
        ["--commands", "sh,cat"],
        [
            "sh",
            "-c",
            "echo a | cat; ls / >/dev/null; echo $?; python3 -c 1; echo $?; /bin/ls; echo $?",
        ],
        level,
    )
    assert done.stdout.split() == [b"a", b"126", b"126", b"126"], done
    done = me.run(["--commands", "cat"], ["ls"], level)
    assert done.returncode in (125, 126), done


EXEC_DENIED = {
    "path": "denied:EACCES",
    "fd": "denied:EACCES",
    "symlink": "denied:EACCES",
    "copy": "denied:EACCES",
    "copy-tmp": "denied:EACCES|ENOENT",
    "tmpfile": "denied",
    "memfd": "denied",
    "memfd-path": "denied",
    "script": "denied",
    "loader": "any",  # decided below: the loader may run, the program through it may not
    "mmap": "any",
}


def test_roads_around_the_list(me, level, probes):
    """A static helper on the list tries to start a program that is not: by copy, memfd, script."""
    probe = probes["execer"]
    victim = me.base / "forbidden"
    shutil.copy("/bin/true", victim)
    me.own(victim)
    opts = ["-r", probe, "-r", victim, "-w", me.work]
    free = me.run(opts, [probe, victim, me.work], level)
    got = rows(free.stdout)
    for name in ("path", "fd", "copy", "script", "loader", "mmap"):
        assert got[name] == "allowed", (name, got, "positive control: without a list it runs")
    done = me.run(["--commands", probe, *opts], [probe, victim, me.work], level)
    assert done.returncode == 0, done.stderr
    expect(rows(done.stdout), EXEC_DENIED, level)


def test_loader_by_hand(me, level):
    """The dynamic loader is needed by the listed program and so can be executed; what it loads for
    execution must be on the list as well."""
    canary = me.work / "loaded"
    loader = "/lib64/ld-linux-x86-64.so.2"
    done = me.run(["-w", me.work], ["sh", "-c", f"{loader} /usr/bin/touch {canary}"], level)
    assert canary.exists()
    canary.unlink()
    done = me.run(
        ["--commands", "sh", "-w", me.work],
        ["sh", "-c", f"{loader} /usr/bin/touch {canary}"],
        level,
    )
    assert not canary.exists(), done
    assert done.returncode != 0


def test_self_exe_with_a_list(me, level):
    """/proc/self/exe is the program itself, no more."""
    done = me.run(
        ["--commands", "bash"],
        ["bash", "-c", "exec -a x /proc/self/exe -c 'echo fine; /bin/true || echo no'"],
        level,
    )
    assert done.stdout in (b"fine\nno\n", b""), done


def test_list_with_a_script(me, level):
    """A script on the list brings its interpreter, and what it calls must be named."""
    me.write(
        me.work / "script", "#!/bin/sh\necho fine\ntrue\ncat /dev/null || echo refused\n", 0o755
    )
    done = me.run(["--commands", "./script"], ["./script"], level)
    assert done.stdout == b"fine\nrefused\n", done


def test_blocked_program_is_named(me, level):
    """Where it costs nothing, the receipt says which program was refused."""
    got = me.receipt(["--commands", "sh"], ["cat", "/dev/null"], level)
    assert got["status"] in (125, 126)
    assert got["kind"] in ("spawn_failed", "sandbox_error", "denied")
    assert "cat" in str(got["denials"]) + str(got["error"])


def documented(row):
    """The names in backquotes of a row of the table "What is visible inside"."""
    text = (ROOT / "docs" / "policy.md").read_text()
    cell = re.search(rf"^\| `{row}` \| (.*) \|$", text, re.MULTILINE)[1]
    names = set()
    for name in re.findall(r"`([^`]*)`", cell):
        before, brace, rest = name.partition("{")
        inner, _, after = rest.partition("}")
        names |= {before + one + after for one in inner.split(",")} if brace else {name}
    return {name for name in names if not name.startswith("/")}


def test_settings_that_are_shown(me):
    """/etc and /var have what the documents list, and all of it that there is on this machine."""
    for top in ("/etc", "/var"):
        want = documented(top)
        done = me.run([], ["find", top, "-maxdepth", "1", "-mindepth", "1", "-printf", "%f\\n"])
        assert set(done.stdout.decode().split()) <= {name.split("/")[0] for name in want}, done
        for name in want:
            if os.path.exists(f"{top}/{name}"):
                done = me.run([], ["ls", "-d", f"{top}/{name}"])
                assert done.returncode == 0, done
    secrets = "/etc/shadow /etc/sudoers /etc/ssh /etc/machine-id /var/lib/dpkg /var/log".split()
    assert any(os.path.exists(path) for path in secrets)
    done = me.run([], ["ls", "-d", *secrets])
    assert done.stdout == b"", done


def test_a_place_for_the_socket_of_a_database(me):
    """Where the host has /run/postgresql, a server inside can use it, and nothing of the host's is there."""
    script = "cd /run/postgresql 2>/dev/null || exit 9; touch .s.PGSQL.5432.lock && cd /tmp; ls -d .s.*"
    done = me.run([], ["sh", "-c", script])
    if os.path.exists("/run/postgresql"):
        assert done.stdout == b".s.PGSQL.5432.lock\n", done
        assert not os.path.exists("/run/postgresql/.s.PGSQL.5432.lock")
    else:
        assert done.returncode == 9, done
    assert me.run([], ["readlink", "/var/run"]).stdout == b"/run\n"
