# SPDX-License-Identifier: Apache-2.0
"""PATH inside is the caller's: a shell finds the tools that it finds outside, and nothing beside them."""

import json
import os
import shutil
import subprocess

import pytest

SYSTEM = "/usr/local/bin:/usr/bin:/bin"
SAY = '#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/../lib/data"\n'


def own(me):
    subprocess.run(["chown", "-hR", f"{me.uid}:{me.gid}", str(me.home)], check=True)


def make(me, path, text="", mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    return me.write(path, text, mode)


def tool(me, prefix, name, bins="bin"):
    """An installation with a program that needs a file beside it."""
    make(me, prefix / bins / name, SAY, 0o755)
    make(me, prefix / "lib" / "data", f"{name} of {prefix.name}\n")
    return f"{name} of {prefix.name}\n".encode()


def both(me, path, script, level, opts=()):
    """The same script outside and inside, with this PATH."""
    own(me)
    env = {"PATH": path}
    out = me.outside(["/bin/sh", "-c", script], env=env)
    return out.stdout, me.run(opts, ["sh", "-c", script], level, env=env)


def test_path_is_the_callers(me, level):
    """In order, without what is not there, relative or empty: the workspace decides nothing."""
    hidden = me.mkdir("home/bin")
    make(me, me.work / "sub" / "x", "#!/bin/sh\n", 0o755)
    path = f"/usr/bin:.::sub:../x:{hidden}:/nowhere/bin:/usr/sbin:/bin/:{me.work}/sub:/usr/bin"
    out, done = both(me, path, "echo $PATH", level)
    assert out == f"{path}\n".encode()
    assert done.stdout == f"/usr/bin:/usr/sbin:/bin:{me.work}/sub\n".encode(), done


def test_no_path_is_the_usual_one(me):
    for env in ({"PATH": ""}, {"PATH": "/nowhere"}):
        done = me.run([], ["/bin/sh", "-c", "echo $PATH"], env=env)
        assert done.stdout == SYSTEM.encode() + b"\n", done


@pytest.mark.parametrize("where", ["home", "work"])
def test_activated_venv(me, level, where):
    """`sh -c python` is the environment's, with its packages."""
    venv = (me.home if where == "home" else me.work) / "v" / "env"
    venv.parent.mkdir()
    me.own(venv.parent)
    me.outside(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
    make(me, next(venv.glob("lib/python*/site-packages")) / "mine.py", "x = 'mine'\n")
    make(me, venv.parent / "secret", "canary")
    script = 'python -c "import sys, mine; print(sys.prefix, mine.x)"; cat "$(dirname $(which python))/../../secret"'
    out, done = both(me, f"{venv}/bin:{SYSTEM}", script, level)
    assert out == f"{venv} mine\ncanary".encode()
    want = out if where == "work" else out[: -len("canary")]
    assert done.stdout == want, done


def test_venv_in_the_top_directory_of_a_project(me, level):
    """The environment's own directories, and nothing of the project."""
    project = me.home / "project"
    me.outside(["/usr/bin/python3", "-m", "venv", "--without-pip", project], check=True)
    make(me, project / ".env", "canary")
    make(me, project / "pip.conf", "canary")
    make(me, project / "src" / "x.py", "canary")
    script = f'python -c "import sys; print(sys.prefix)"; cd {project}; cat .env pip.conf src/x.py'
    out, done = both(me, f"{project}/bin:{SYSTEM}", script, level)
    assert out == f"{project}\n".encode() + b"canary" * 3
    assert done.stdout == f"{project}\n".encode(), done


CHAINS = {
    # PATH below the home: (prefix, name of the program)
    ".nvm/versions/node/v20.1.0/bin": (".nvm/versions/node/v20.1.0", "node"),
    ".pyenv/versions/3.12.1/bin": (".pyenv/versions/3.12.1", "python3"),
    ".rbenv/versions/3.3.0/bin": (".rbenv/versions/3.3.0", "ruby"),
    ".rustup/toolchains/stable/bin": (".rustup/toolchains/stable", "rustc"),
    ".local/share/uv/python/cpython-3.13/bin": (".local/share/uv/python/cpython-3.13", "python3"),
    "miniconda3/envs/x/bin": ("miniconda3/envs/x", "python3"),
    "miniconda3/condabin": ("miniconda3", "conda"),
    ".sdkman/candidates/java/current/bin": (".sdkman/candidates/java/17.0", "java"),
    ".local/state/fnm_multishells/1_2/bin": (".local/share/fnm/node-versions/v22/installation", "node"),
}
LINKS = {
    ".sdkman/candidates/java/current": "17.0",
    ".local/state/fnm_multishells/1_2": "../../share/fnm/node-versions/v22/installation",
}


@pytest.mark.parametrize("entry", CHAINS)
def test_tool_chain_of_a_version_manager(me, level, entry):
    """The first one in PATH runs, not the system's, and only its installation is shown."""
    prefix, name = CHAINS[entry]
    want = tool(me, me.home / prefix, name, "condabin" if "condabin" in entry else "bin")
    if entry.rsplit("/", 1)[0] in LINKS:
        link = me.home / entry.rsplit("/", 1)[0]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(LINKS[entry.rsplit("/", 1)[0]])
    make(me, me.home / prefix / ".." / "secret", "canary")
    for home in (".npmrc", ".condarc", ".bashrc"):
        make(me, me.home / home, "canary")
    beside = " ".join(f"{me.home}/{n}" for n in (".npmrc", ".condarc", ".bashrc", f"{prefix}/../secret"))
    script = f"{name}; cat {beside}"
    out, done = both(me, f"{me.home}/{entry}:{SYSTEM}", script, level)
    assert out == want + b"canary" * 4
    assert done.stdout.replace(b"canary", b"") == want, done
    # What lies beside an installation is not part of it; the base of conda is.
    assert b"canary" not in done.stdout or prefix == "miniconda3/envs/x", done


def test_shims_of_a_version_manager(me, level):
    """A shim finds its manager, and the manager the version."""
    root = me.home / "tools" / "pyenv"
    want = tool(me, root / "versions" / "3.9", "thing")
    make(me, root / "libexec" / "pyenv", '#!/bin/sh\nexec "$(dirname "$0")/../versions/3.9/bin/thing"\n', 0o755)
    make(me, root / "shims" / "thing", f'#!/bin/sh\nexec "{root}/libexec/pyenv" exec thing\n', 0o755)
    make(me, root.parent / "secret", "canary")
    out, done = both(me, f"{root}/shims:{SYSTEM}", f"thing; cat {root.parent}/secret", level)
    assert out == want + b"canary"
    assert done.stdout == want, done


BESIDE = {
    # directory in PATH: what lies beside it and is not shown
    ".cargo/bin": [".cargo/credentials.toml", ".cargo/config.toml", ".cargo/registry/x"],
    "go/bin": ["go/pkg/mod/private", "go/src/private"],
    ".bun/bin": [".bun/install/cache/private", ".bunfig.toml"],
    ".deno/bin": [".deno/credentials"],
    ".volta/bin": [".volta/hooks.json"],
}


@pytest.mark.parametrize("entry", BESIDE)
def test_programs_beside_credentials(me, level, entry):
    """Of these directories only the one with the programs is shown, and what they need to run."""
    make(me, me.home / entry / "thing", '#!/bin/sh\necho "thing$(cat "${0%/*/*/*}/.rustup/settings" 2>/dev/null)"\n', 0o755)
    make(me, me.home / entry / "rustup", "#!/bin/sh\n", 0o755)
    make(me, me.home / ".rustup" / "settings", " of rustup")
    for path in BESIDE[entry]:
        make(me, me.home / path, "canary")
    script = "thing; cat " + " ".join(f"{me.home}/{path}" for path in BESIDE[entry])
    out, done = both(me, f"{me.home}/{entry}:{SYSTEM}", script, level)
    assert out == b"thing of rustup\n" + b"canary" * len(BESIDE[entry])
    assert done.stdout == (b"thing of rustup\n" if entry == ".cargo/bin" else b"thing\n"), done


def test_tokens_in_an_installation_are_hidden(me, level):
    """What npm and conda keep in their prefix, whether it is shown for PATH or for the command."""
    node = me.home / ".nvm/versions/node/v20.1.0"
    conda = me.home / "miniconda3"
    want = tool(me, node, "node") + tool(me, conda, "thing")
    for path in (node / "etc/npmrc", conda / ".condarc"):
        make(me, path, "canary")
    script = f"node; thing; cat {node}/etc/npmrc {conda}/.condarc"
    path = f"{node}/bin:{conda}/bin:{SYSTEM}"
    out, done = both(me, path, script, level)
    assert out == want + b"canary" * 2
    assert done.stdout == want, done
    # Shown if asked for.
    done = me.run(["-r", conda / ".condarc"], ["sh", "-c", script], level, env={"PATH": path})
    assert done.stdout == want + b"canary", done


def test_real_node(me, level):
    """A real program, copied to where nvm puts it."""
    node = shutil.which("node", path=SYSTEM)
    assert node, "node is not installed"
    place = me.home / ".nvm/versions/node/v1.2.3/bin/node"
    place.parent.mkdir(parents=True)
    shutil.copy(os.path.realpath(node), place)
    out, done = both(me, f"{place.parent}:{SYSTEM}", "node -p process.execPath", level)
    assert out == done.stdout == f"{place}\n".encode(), done


def test_other_directories_are_not_shown(me, level):
    """~/bin, a project, the home itself: left out of PATH, and shown if asked for."""
    want = tool(me, me.home / "project", "mytool")
    make(me, me.home / "mytool2", "#!/bin/sh\n", 0o755)
    path = f"{me.home}/project/bin:{me.home}:{SYSTEM}"
    out, done = both(me, path, f"echo $PATH; mytool; ls {me.home}", level)
    assert want in out
    assert done.stdout.startswith(SYSTEM.encode() + b"\n") and want not in done.stdout, done
    assert b"project" not in done.stdout, done
    out, done = both(me, path, "mytool", level, ["-r", me.home / "project"])
    assert out == done.stdout == want, done


def test_a_program_that_is_not_found_is_named(me, level):
    """With the flag that shows it; only if the shell did not find it."""
    bin_dir = me.home / "bin"
    make(me, bin_dir / "mytool", "#!/bin/sh\necho mine\n", 0o755)
    path = f"{bin_dir}:{SYSTEM}"
    out, done = both(me, path, "mytool", level)
    assert out == b"mine\n" and done.returncode == 127
    note = f"cordon: '{bin_dir}/mytool' is not shown to the command (show it with -r {bin_dir})\n"
    assert note.encode() in done.stderr, done
    done = me.run(["-r", bin_dir], ["sh", "-c", "mytool"], level, env={"PATH": path})
    assert (done.stdout, done.stderr) == (b"mine\n", b""), done
    # It is a script's own call that is not found.
    make(me, me.work / "build.sh", "#!/bin/sh\nmytool\n", 0o755)
    done = me.run([], ["./build.sh"], level, env={"PATH": path})
    assert done.returncode == 127 and note.encode() in done.stderr, done
    # Of one that does not say what it misses only the directories are known.
    make(me, me.work / "silent.sh", "#!/bin/sh\nmytool 2> /dev/null\n", 0o755)
    done = me.run([], ["./silent.sh"], level, env={"PATH": path})
    assert done.returncode == 127 and f"'{bin_dir}'; show a directory with -r DIR".encode() in done.stderr
    for script in ("true", "exit 3", "test mytool"):
        done = me.run([], ["sh", "-c", script], level, env={"PATH": path})
        assert done.stderr == b"", done
    done = me.run(["-q"], ["sh", "-c", "mytool"], level, env={"PATH": path})
    assert b"cordon" not in done.stderr, done


def test_another_program_of_the_same_name_is_told(me):
    """What runs instead of the first one in PATH is no surprise."""
    make(me, me.home / "bin" / "ls", "#!/bin/sh\necho mine\n", 0o755)
    out, done = both(me, f"{me.home}/bin:{SYSTEM}", "cd / && ls -d usr", None, ["--dry-run"])
    assert out == b"mine\n"
    assert f"'ls' is the one in /usr/bin: '{me.home}/bin' comes first" in str(json.loads(done.stdout)["notes"])


def test_allowed_commands_of_a_venv(me, level):
    """--commands and a tool chain in PATH go together."""
    venv = me.home / "env"
    me.outside(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
    script = 'python -c "import sys; print(sys.prefix)"; ls /'
    out, done = both(me, f"{venv}/bin:{SYSTEM}", script, level, ["--commands", "sh,python"])
    assert done.stdout == f"{venv}\n".encode() and out.startswith(done.stdout), done


def test_a_link_that_a_run_left_shows_no_neighbour(me, level):
    """PATH has a directory of the workspace, and an earlier run made it a link to a project that looks
    like an installation."""
    other = me.home / "other"
    tool(me, other, "python")
    make(me, other / "conda-meta" / "history")
    make(me, other / "lib" / "secret", "canary")
    (me.work / "tools").symlink_to(other)
    script = f"cat {me.work}/tools/lib/secret {other}/lib/secret"
    out, done = both(me, f"{me.work}/tools/bin:{SYSTEM}", script, level)
    assert out == b"canarycanary"
    assert done.stdout == b"", done
    # Named by the caller it is what it looks like.
    out, done = both(me, f"{other}/bin:{SYSTEM}", f"cat {other}/lib/secret", level)
    assert out == done.stdout == b"canary", done


@pytest.mark.parametrize("part", ["share", "include", "pyvenv.cfg"])
def test_links_in_an_environment_show_no_neighbour(me, level, part):
    """An earlier run made a part of the activated environment a link to another project."""
    venv, other = me.home / "project/.venv", me.home / "other"
    make(me, venv.parent / "x")
    own(me)
    me.outside(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
    make(me, venv / "more")
    secret = make(me, other / "secret", "home = canary\n")
    shutil.rmtree(venv / part) if (venv / part).is_dir() else (venv / part).unlink(missing_ok=True)
    (venv / part).symlink_to(secret if part == "pyvenv.cfg" else other)
    script = f"cat {secret} {venv}/{part}/secret {venv}/{part} 2>/dev/null"
    out, done = both(me, f"{venv}/bin:{SYSTEM}", script, level)
    assert b"canary" in out and b"canary" not in done.stdout, done


@pytest.mark.parametrize("marks", [["bin/node", "lib/node_modules/x"], ["conda-meta/x", "bin/python"]])
def test_a_project_with_marks_is_none(me, level, marks):
    """An earlier run made the project, whose bin is in PATH, look like an installation."""
    project = me.home / "project"
    for mark in marks:
        make(me, project / mark, "#!/bin/sh\n", 0o755)
    make(me, project / "src/secret", "canary")
    out, done = both(me, f"{project}/bin:{SYSTEM}", f"cat {project}/src/secret", level)
    assert out == b"canary" and done.stdout == b"", done
    make(me, project / ".env", "canary")
    make(me, project / "lib/secret", "canary")
    out, done = both(me, f"{project}/bin:{SYSTEM}", f"cat {project}/.env {project}/lib/secret", level)
    assert out == b"canarycanary" and done.stdout == b"", done


def test_a_long_path_is_no_error(me, level):
    """More tool chains than a run can show, and more directories than are looked at."""
    dirs = []
    for i in range(100):
        tool(me, me.home / ".nvm" / "versions" / "node" / f"v{i}", f"tool{i}")
        dirs.append(f"{me.home}/.nvm/versions/node/v{i}/bin")
    out, done = both(me, ":".join(["/usr/bin", *dirs]), "tool0; tool99; echo end", level)
    assert out == b"tool0 of v0\ntool99 of v99\nend\n"
    assert done.stdout == b"tool0 of v0\nend\n", done
