# SPDX-License-Identifier: Apache-2.0
"""What a run sees of its workspace and what it does not, and what grants and denials mean in it."""

import json
import os
import signal
import stat
import subprocess

import pytest

from conftest import IS_ROOT, settles, unavailable
from workspacelib import assert_same, differences, picture, store, tree

PROJECT = {
    "file": "text\n",
    "sub/inner": "inner\n",
    "link": ("link", "file"),
    "secret": "the secret\n",
    ".git/hooks": None,
    ".git/config": "[core]\n",
}


@pytest.fixture
def base(me):
    return tree(me, me.mkdir("base"), PROJECT)


def sh(me, opts, script, level=None, **kw):
    """Runs a script that starts in the workspace."""
    return me.run(opts, ["sh", "-c", 'cd "$CORDON_WORKSPACE" && ' + script], level, **kw)


def changes(me, which):
    done = me.outside([me.cordon, "workspace", "diff", "--json", which])
    assert done.returncode == 0, done.stderr
    return {c["path"]: c["kind"] for c in json.loads(done.stdout)["changes"]}


def test_same_path(me, base):
    script = 'pwd; echo "$CORDON_WORKSPACE"; echo "$PWD"; cat file link sub/inner; stat -c %a,%Y file; test -O file'
    want = f"{base}\n{base}\n{base}\ntext\ntext\ninner\n644,{int(os.stat(base / 'file').st_mtime)}\n"
    done = me.run(["--workspace", base], ["sh", "-c", script], "namespaces", cwd=str(base))
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == want


def test_copy_has_a_path_of_its_own(me, base):
    script = 'echo "$CORDON_WORKSPACE"; pwd; cat file link sub/inner'
    done = me.run(["--workspace", base], ["sh", "-c", script], "landlock", cwd=str(base))
    assert done.returncode == 0, done.stderr
    place, cwd, *rest = done.stdout.decode().splitlines()
    assert place == cwd and place.startswith(str(store(me)) + "/") and rest == ["text", "text", "inner"]


def test_current_directory(me, level, base):
    """The caller's, if it lies in the workspace; the workspace, if the caller's is not shown."""
    script = 'pwd | sed "s,^$CORDON_WORKSPACE,WS,"'
    for cwd, want in ((base, "WS"), (base / "sub", "WS/sub"), (me.home, "WS")):
        done = me.run(["--workspace", base], ["sh", "-c", script], level, cwd=str(cwd))
        assert done.stdout.decode().strip() == want, (cwd, done)
    done = me.run(["--workspace", ".", "--cwd", "sub"], ["sh", "-c", script], level, cwd=str(base))
    assert done.stdout.decode().strip() == "WS/sub", done


def test_protected_names_may_be_changed(me, level, base):
    before = picture(base)
    names = ".git/hooks/pre-commit .git/config .envrc .vscode .claude .git/x .bashrc".split()
    done = sh(me, ["--workspace", base, "--name", "n"], f"for n in {' '.join(names)}; do echo new > $n; done; cat .git/config", level)  # fmt: skip
    assert done.returncode == 0 and done.stdout == b"new\n", done
    assert_same(before, base)
    assert set(names) <= set(changes(me, "n"))


# --- deny and grants ---------------------------------------------------------------------------------

DENIED = """
cat secret; echo x > secret; rm -f secret; mv secret other; ln secret other; cp secret other
echo x > missing; mkdir missing; ln -s file missing; mv file missing; rm -rf missing
cat sub/inner; rm -rf sub; mv sub other; true
"""


def test_deny(me, base):
    before = picture(base)
    opts = ["--workspace", base, "--name", "n"]
    for path in ("secret", "missing", "sub"):
        opts += ["--deny", base / path]
    done = sh(me, opts, DENIED + "cat missing secret; ls sub other; true", "namespaces")
    assert b"the secret" not in done.stdout and b"inner" not in done.stdout, done
    assert done.stdout == b"", done
    assert_same(before, base)
    assert changes(me, "n") == {}
    # Without the denials everything is there as before, and nothing else.
    done = sh(me, ["--name", "n"], "ls -A; cat secret sub/inner", "namespaces")
    assert done.stdout.decode().split("\n") == sorted([".git", "file", "link", "secret", "sub"]) + ["the secret", "inner", ""]  # fmt: skip
    assert sh(me, ["--workspace", base], DENIED, "namespaces").stdout != b"", "control"


def test_denied_name_of_an_earlier_run(me, base):
    """Made inside by a run, denied in the next: hidden, and there again afterwards."""
    ws = ["--workspace", base, "--name", "n"]
    sh(me, ws, "echo mine > made; mkdir dir; echo mine > dir/made", "namespaces")
    done = sh(me, [*ws, "--deny", base / "made", "--deny", base / "dir"], "cat made dir/made; rm -rf made dir; true", "namespaces")  # fmt: skip
    assert done.stdout == b"", done
    assert sh(me, ws, "cat made dir/made", "namespaces").stdout == b"mine\nmine\n"
    assert not os.path.lexists(base / "made")


@pytest.mark.parametrize("flag", ["--deny", "-r", "-w"])
def test_what_a_copy_cannot_honour(me, base, flag):
    """Level landlock refuses what it could not keep, and leaves nothing behind."""
    before = picture(base)
    for path in (base / "sub", *([base, me.base] if flag == "-w" else [])):
        done = sh(me, ["--workspace", base, flag, path], "echo x > sub/inner", "landlock")
        assert done.returncode == 125 and b"level landlock cannot" in done.stderr, (path, done)
    assert_same(before, base)
    assert os.listdir(store(me)) == []


def test_grants_inside(me, base):
    """They are the host's own directories, as everywhere."""
    for name in ("ro", "rw"):
        tree(me, base, {f"{name}/f": "old\n"})
    before = picture(base)
    opts = ["--workspace", base, "--name", "n", "-r", base / "ro", "-w", base / "rw"]
    done = sh(me, opts, "echo new > rw/f; echo new > file; cat rw/f ro/f; echo new > ro/f", "namespaces")
    assert done.stdout == b"new\nold\n" and done.returncode != 0, done
    after = picture(base)
    changed = {line.split(":")[0] for line in differences(before, after)}
    # The directory's own time shows that names were held there while it ran.
    assert changed <= {"rw/f", "rw"} and (base / "rw" / "f").read_text() == "new\n", changed
    assert changes(me, "n") == {"file": "modified"}


def test_grant_around_it(me, base):
    """A write grant of the directory above does not reach into the base."""
    before = picture(base)
    done = sh(me, ["--workspace", base, "-w", me.base, "--no-protect"], f"echo x > file; echo x > new; echo y > ../beside; cd {me.base} && echo z > base/file; mv base away", "namespaces")  # fmt: skip
    assert (me.base / "beside").read_text() == "y\n", done
    assert_same(before, base)


def test_workspace_and_write_grant(me, level, base):
    done = me.run(["--workspace", base, "-w", base], ["true"], level)
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1, done
    assert not store(me).exists() or os.listdir(store(me)) == []


# --- bases -------------------------------------------------------------------------------------------


def refused(me, opts, *words, level=None, cwd=None):
    done = me.run(opts, ["true"], level, **({"cwd": str(cwd)} if cwd else {}))
    assert done.returncode == 125, done
    assert done.stderr.startswith(b"cordon: ") and done.stderr.count(b"\n") == 1, done
    for word in words:
        assert word in done.stderr.decode(), (word, done)


def test_bases_that_are_refused(me, level, base):
    os.symlink("base", me.base / "alias")
    me.own(me.base / "alias")
    refused(me, ["--workspace", me.base / "alias"], "link", level=level)
    refused(me, ["--workspace", me.base / "none"], "no such file", level=level)
    refused(me, ["--workspace", base / "file"], "directory", level=level)
    refused(me, ["--workspace", me.home], "workspaces are kept", "XDG_STATE_HOME", level=level)
    refused(me, ["--workspace", "/"], "kept", level=level)
    refused(me, ["--workspace", ""], level=level)
    refused(me, ["--workspace", me.home / ".local"], "workspaces are kept", level=level)


def test_home_with_the_store_elsewhere(me, level):
    """A home directory, named in full, if nothing of the store is inside."""
    state = me.mkdir("state")
    os.chmod(state, 0o700)
    me.write(me.home / ".bashrc", "old\n")
    before = picture(me.home)
    done = sh(me, ["--workspace", me.home], "echo new > .bashrc; cat .bashrc", level, env={"XDG_STATE_HOME": str(state)})  # fmt: skip
    assert done.stdout == b"new\n", done
    assert_same(before, me.home)
    refused(me, ["--workspace", "."], "kept", level=level, cwd=me.home)


def test_read_only_base(me, level, base):
    """Files that their owner has closed for writing are files like others; nothing is lifted there."""
    os.chmod(base / "file", 0o444)
    os.chmod(base / "sub", 0o555)
    before = picture(base)
    done = sh(me, ["--workspace", base], "rm -f file && echo new > file && cat file; chmod 755 sub && echo new > sub/new && cat sub/new", level)  # fmt: skip
    assert done.stdout == b"new\nnew\n", done
    assert_same(before, base)


def test_base_of_somebody_else(me, level, base):
    """Readable for the caller, but not its own: it can be seen and, where the kernel can copy it,
    changed; the base is not."""
    if not IS_ROOT:
        unavailable("only root can make another owner's files")
    for where, _, files in os.walk(base):
        os.chown(where, 4711, 4711)
        for name in files:
            os.chown(os.path.join(where, name), 4711, 4711, follow_symlinks=False)
    before = picture(base)
    done = sh(me, ["--workspace", base], "cat file; echo new > file; rm -f secret; touch new; chmod 777 sub; true", level)  # fmt: skip
    assert b"text" in done.stdout, done
    assert_same(before, base)


def mounted(me, script, *argv, env=None):
    """Runs argv in a mount namespace of its own, with what the script mounts as root."""
    if not IS_ROOT:
        unavailable("only root can mount something for the caller")
    ids = [f"--reuid={me.uid}", f"--regid={me.gid}", "--clear-groups"]
    exec_it = f'; exec setpriv {" ".join(ids)} "$@"'
    return subprocess.run(
        ["unshare", "-m", "sh", "-ec", script + exec_it, "sh", *map(str, argv)],
        env=me.env(**(env or {})), cwd=str(me.work), capture_output=True, timeout=60, check=False,
    )  # fmt: skip


def test_base_on_tmpfs(me, base):
    """Upper directory on disk, base in memory, and the other way round."""
    script = f"mount -t tmpfs none {base}; echo mem > {base}/file; chown -R {me.uid}:{me.gid} {base}"
    inner = f"cd {base}; cat file; echo new > file; cat file; rm file; ls"
    argv = me.argv(["--json", "--workspace", base], ["sh", "-c", inner])
    done = mounted(me, script, "sh", "-c", f'"$@"; cat {base}/file', "sh", *argv)
    receipt, _, rest = done.stdout.decode().partition("\n")
    receipt = json.loads(receipt)
    assert receipt["stdout"] == "mem\nnew\n" and rest == "mem\n", done
    assert receipt["workspace"]["mechanism"] == "overlay", receipt
    assert receipt["workspace"]["summary"]["deleted"] == 1, receipt


STORES = {
    "tmpfs": ("mount -t tmpfs -o mode=700 none {state}; chown {uid}:{uid} {state}", "overlay copy"),
    "overlayfs": (
        "mkdir {out}/l {out}/u {out}/w; chmod 700 {out}/u {out}/l; chown {uid}:{uid} {out}/l {out}/u; "
        "mount -t overlay -o userxattr,lowerdir={out}/l,upperdir={out}/u,workdir={out}/w none {state}",
        "copy",
    ),
}


@pytest.mark.parametrize("where", STORES)
def test_store_that_cannot_have_layers(me, base, where):
    """On an overlay there is no second one: the run gets a copy, and says so."""
    state = me.mkdir("state", 0o700)
    script, want = STORES[where]
    before = picture(base)
    argv = me.argv(["--json", "--workspace", base], ["sh", "-c", f"cd {base}; echo new > file; cat file sub/inner"])
    done = mounted(me, script.format(state=state, out=me.out, uid=me.uid), *argv, env={"XDG_STATE_HOME": str(state)})
    assert_same(before, base)
    if me.name == "root" and where == "overlayfs":
        # Root's own files there cannot be shown to anybody else, as with every write grant.
        assert done.returncode == 125 and b"idmapped" in done.stderr, done
        assert done.stderr.count(b"\n") == 1, done
        return
    assert done.returncode == 0, done
    receipt = json.loads(done.stdout)
    assert receipt["stdout"] == "new\ninner\n", receipt
    assert receipt["workspace"]["mechanism"] in want.split(), receipt
    assert receipt["workspace"]["summary"]["modified"] == 1, receipt


def test_base_with_a_mount_below(me, base):
    """Another filesystem below the base: it is seen or it is not, but never changed."""
    before = picture(base)
    script = f"mount -t tmpfs none {base}/sub; echo mounted > {base}/sub/m; chown -R {me.uid}:{me.gid} {base}/sub"
    inner = f"cd {base}; echo new > file; cat file; echo x > sub/m; echo x > sub/new; rm -rf sub; true"
    argv = me.argv(["--json", "--workspace", base], ["sh", "-c", inner])
    after = f"; cat {base}/sub/m; ls {base}/sub; true"
    done = mounted(me, script, "sh", "-c", '"$@"' + after, "sh", *argv)
    receipt, _, rest = done.stdout.decode().partition("\n")
    assert json.loads(receipt)["stdout"] == "new\n", done
    assert rest == "mounted\nm\n", done
    assert_same(before, base)


# --- programs that were made inside ----------------------------------------------------------------------

BUILD = """printf '%s\\n' '#include <stdio.h>' 'int main(void) { puts("built inside"); return 0; }' > p.c
gcc -o p p.c && ./p && ./p && mkdir -p d && cp p d/q && printf '#!/bin/sh\\nexec ./p\\n' > s && chmod 755 s && ./s"""


def test_programs_built_inside(me, level, base):
    before = picture(base)
    ws = ["--workspace", base, "--name", "n"]
    done = sh(me, ws, BUILD, level)
    assert done.stdout == b"built inside\n" * 3, done
    for argv in (["./p"], ["d/q"], ["./s"], ["sh", "-c", "./p"]):
        for opts in (ws, ["--name", "n"]):
            done = me.run(opts, argv, level, cwd=str(base))
            assert done.stdout == b"built inside\n", (opts, argv, done)
    if level == "namespaces":
        done = me.run(["--name", "n"], [base / "d" / "q"], level)
        assert done.stdout == b"built inside\n", done
    assert_same(before, base)


def test_replaced_program_of_the_base(me, level, base):
    """A program that the base has too: the workspace's is run."""
    me.write(base / "tool", "#!/bin/sh\necho base\n", 0o755)
    ws = ["--workspace", base, "--name", "n"]
    assert me.run(ws, ["./tool"], level, cwd=str(base)).stdout == b"base\n"
    sh(me, ws, "echo '#!/bin/sh\necho inside' > tool", level)
    assert me.run(ws, ["./tool"], level, cwd=str(base)).stdout == b"inside\n"
    sh(me, ws, "rm tool", level)
    done = me.run(ws, ["./tool"], level, cwd=str(base))
    assert done.returncode in (126, 127) and done.stdout == b"", done


# --- one at a time ---------------------------------------------------------------------------------------


def test_two_runs_at_once(me, level, base):
    ws = ["--workspace", base, "--name", "n"]
    first = me.popen(me.argv(ws, ["sh", "-c", "echo ready; read line; echo x > made"], level), cwd=str(base), stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert first.stdout.readline() == b"ready\n"
    refused(me, ws, "in use", level=level)
    done = me.outside([me.cordon, "workspace", "discard", "--yes", "n"])
    assert done.returncode == 125 and b"in use" in done.stderr, done
    # Others over the same base go on.
    assert sh(me, ["--workspace", base, "--name", "other"], "ls made 2>&1; true", level).returncode == 0
    first.communicate(b"\n", timeout=20)
    assert first.returncode == 0
    assert sh(me, ws, "cat made", level).stdout == b"x\n"


def test_killed_supervisor(me, level, base):
    """cordon dies in the middle of a run: what was written is kept, and the workspace is not locked."""
    ws = ["--workspace", base, "--name", "n"]
    first = me.popen(me.argv(ws, ["sh", "-c", "echo x > made; echo ready; sleep 1000"], level), cwd=str(base), stdout=subprocess.PIPE)  # fmt: skip
    assert first.stdout.readline() == b"ready\n"
    first.send_signal(signal.SIGKILL)
    first.wait(timeout=20)
    first.stdout.close()

    def in_use():
        done = me.outside([me.cordon, "workspace", "status", "--json", "n"], check=True)
        return json.loads(done.stdout)["in_use"]

    assert not settles(in_use, 20), "it is still locked"
    assert changes(me, "n") == {"made": "added"}
    assert sh(me, ws, "cat made", level).stdout == b"x\n"
    assert not os.path.lexists(base / "made")


def test_user(me, base):
    """Started by root for another user (--user): the workspace is that user's to change, and what it
    makes belongs to root on the disk."""
    if me.name != "root":
        pytest.skip("--user is for root")
    before = picture(base)
    done = sh(me, ["--user", "4711:4711", "--workspace", base, "--name", "n"], "test -O file && cat file; echo x > made && stat -c %u made; echo y > file", "namespaces")  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith(b"text\n"), done
    assert_same(before, base)
    for path in store(me).rglob("*"):
        assert os.lstat(path).st_uid == 0, path


def test_modes_of_the_store(me, level, base):
    """Other users cannot look in."""
    sh(me, ["--workspace", base, "--name", "n"], "echo x > made", level)
    for path in (store(me), store(me).parent, *store(me).glob("w*")):
        st = os.lstat(path)
        assert stat.S_IMODE(st.st_mode) == 0o700 and st.st_uid == me.uid, path
