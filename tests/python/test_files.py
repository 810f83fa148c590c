# SPDX-License-Identifier: Apache-2.0
"""files.*: the sandbox user's rights, hostile trees, large files, archives."""

import errno
import io
import itertools
import os
import tarfile
import threading
import time

import pytest

import pycordon
from pycordon._filesteps import matching
from pylib import ceiling


def test_read_and_write(box):
    box.files.write("a/b/c.txt", "ä\n")
    assert box.files.read("a/b/c.txt") == "ä\n".encode()
    assert box.files.read_text("a/b/c.txt") == "ä\n"
    assert box.run("cat a/b/c.txt").stdout == "ä\n"
    box.files.write("a/b/c.txt", b"\0\xff", append=True)
    assert box.files.read("a/b/c.txt") == "ä\n".encode() + b"\0\xff"
    box.files.write("run.sh", "#!/bin/sh\necho ran\n", mode=0o755)
    assert box.run("./run.sh").stdout == "ran\n"
    with pytest.raises(FileNotFoundError):
        box.files.write("x/y", "", parents=False)
    with pytest.raises(FileExistsError):
        box.files.write("run.sh", "", exclusive=True)
    box.run("printf '\\377x' > bytes")
    assert box.files.read("bytes") == b"\xffx"


def test_commands_see_what_is_written_and_the_other_way(box):
    box.files.write("/tmp/x", "1")
    assert box.run("cat /tmp/x; echo 2 > /tmp/y").stdout == "1"
    assert box.files.read("/tmp/y") == b"2\n"


def test_large_files(box):
    data = os.urandom(1 << 20) * 100
    with pycordon.Sandbox(workdir=True, limits_disk="512M") as big:
        big.files.write("large", data)
        assert big.files.stat("large").size == len(data)
        assert big.files.read("large") == data
        with pytest.raises(OSError) as caught:
            big.files.read("large", limit=1000)
        assert caught.value.errno == errno.EFBIG
        assert len(big.files.read("large", limit=None)) == len(data)


def test_errors_are_the_usual_ones(box):
    box.run("mkdir d; touch f; mkdir full; touch full/x; ln -s loop loop")
    for call, error in (
        (lambda: box.files.read("missing"), FileNotFoundError),
        (lambda: box.files.read("d"), IsADirectoryError),
        (lambda: box.files.read("f/x"), NotADirectoryError),
        (lambda: box.files.list("f"), NotADirectoryError),
        (lambda: box.files.write("d", ""), IsADirectoryError),
        (lambda: box.files.mkdir("d", exist_ok=False), FileExistsError),
        (lambda: box.files.remove("missing"), FileNotFoundError),
        (lambda: box.files.remove("full"), OSError),
        (lambda: box.files.read("loop"), OSError),
        (lambda: box.files.write("/usr/x", ""), OSError),
        (lambda: box.files.write("/etc/passwd", ""), OSError),
        (lambda: box.files.read(""), ValueError),
        (lambda: box.files.read("a\0b"), ValueError),
        (lambda: box.files.remove("."), OSError),
        (lambda: box.files.remove(box.workdir, recursive=True), OSError),
        (lambda: box.files.remove("/", recursive=True), OSError),
    ):
        with pytest.raises(error):
            call()
    with pytest.raises(FileNotFoundError) as caught:
        box.files.read("missing")
    assert caught.value.filename == "missing"
    box.files.remove("missing", missing_ok=True)
    box.files.remove("full", recursive=True)
    assert not box.files.exists("full")


def test_rights_are_those_of_the_sandbox(box):
    """Also where root is the caller."""
    box.run("echo x > closed; chmod 000 closed; mkdir dir; touch dir/f; chmod 500 dir")
    with pytest.raises(PermissionError):
        box.files.read("closed")
    with pytest.raises(PermissionError):
        box.files.write("closed", "y")
    with pytest.raises(PermissionError):
        box.files.write("dir/new", "y")
    with pytest.raises(PermissionError):
        box.files.remove("dir/f")
    box.files.chmod("closed", 0o600)
    assert box.files.read("closed") == b"x\n"
    box.files.chmod("dir", 0o700)


def test_stat_and_list(box):
    box.run("mkdir -p d/e; printf 12345 > d/f; ln -s f d/l; mkfifo d/p; chmod 640 d/f")
    info = box.files.stat("d/f")
    assert (info.name, info.path, info.type, info.size, info.mode) == ("f", "d/f", "file", 5, 0o640)
    assert abs(info.mtime - time.time()) < 3600 and info.is_file and not info.is_dir
    assert box.files.stat("d/l").type == "file"
    link = box.files.stat("d/l", follow=False)
    assert (link.type, link.target) == ("link", "f")
    names = {i.name: i.type for i in box.files.list("d")}
    assert names == {"e": "dir", "f": "file", "l": "link", "p": "fifo"}
    assert [i.path for i in box.files.list(".", depth=2)] == ["d", "d/e", "d/f", "d/l", "d/p"]
    assert box.files.is_dir("d") and not box.files.is_dir("d/f") and box.files.is_file("d/f")
    assert not box.files.exists("nope") and not box.files.exists("d/f/x")
    assert box.files.realpath("d/l") == box.workdir + "/d/f"
    assert box.files.readlink("d/l") == "f"


def test_glob(box):
    box.run("mkdir -p s/t/u; touch a.py b.txt s/c.py s/t/d.py s/t/u/e.py .h.py")
    paths = lambda pattern: [i.path for i in box.files.glob(pattern)]
    assert paths("*.py") == [".h.py", "a.py"]
    assert paths("s/*.py") == ["s/c.py"]
    assert paths("s/**/*.py") == ["s/c.py", "s/t/d.py", "s/t/u/e.py"]
    assert paths("**/*.py") == [".h.py", "a.py", "s/c.py", "s/t/d.py", "s/t/u/e.py"]
    assert paths("s/[ct].py") == ["s/c.py"] and paths("no/*") == []
    assert paths(box.workdir + "/s/*/d.py") == [box.workdir + "/s/t/d.py"]
    assert paths("s/**") == ["s/c.py", "s/t", "s/t/d.py", "s/t/u", "s/t/u/e.py"]
    assert paths("s/*/**/c.py") == [] and paths("s*/**/d.py") == ["s/t/d.py"]
    assert paths("**/s?c.py") == paths("**/s[!x]c.py") == []  # a slash is part of no name
    assert paths("**/t/**/*.py") == ["s/t/d.py", "s/t/u/e.py"]
    assert paths("./s//*.py") == ["s/c.py"] and paths("[.*]*") == [".h.py"]
    assert paths("s/*/") == ["s/t"] and paths("**/") == ["s", "s/t", "s/t/u"]


def test_glob_finds_what_pathlib_finds(box, tmp_path):
    """Where names do not begin with a dot, for which there are several opinions."""
    tree = ["a", "ab", "d/a", "d/ab", "d/e/a", "d/e/f/ab", "ad/a", "ad/e/b"]
    for name in tree:
        box.files.write(name, "")
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).touch()
    found = box.files.list(".", depth=0)
    names = ["**", "*", "a", "?", "a?", "*d", "[de]"]
    for pattern in ["/".join(p) for n in (1, 2, 3) for p in itertools.product(names, repeat=n)]:
        if pattern.endswith("**"):
            continue  # pathlib has changed its mind about these
        here = {str(p.relative_to(tmp_path / "t")) for p in (tmp_path / "t").glob(pattern)}
        assert {i.path for i in matching(found, pattern)} == here, pattern


def test_rename_symlink_mkdir(box):
    box.files.mkdir("x/y")
    box.files.write("x/f", "1")
    box.files.rename("x/f", "x/g")
    assert not box.files.exists("x/f") and box.files.read("x/g") == b"1"
    box.files.write("x/h", "2")
    with pytest.raises(FileExistsError):
        box.files.rename("x/g", "x/h", replace=False)
    box.files.symlink("x/l", "h")
    box.files.write("x/l", "through")  # a link that stays inside is followed, as a command would
    assert box.files.read("x/h") == b"through"


def test_links_never_lead_out(box, tmp_path_factory):
    """The attack that works on programs that open guest paths on the host."""
    tmp_path = tmp_path_factory.mktemp("elsewhere")
    secret = tmp_path / "secret"
    secret.write_text("canary")
    os.symlink(secret, tmp_path / "link")
    assert open(tmp_path / "link").read() == "canary"  # outside it is one open() away
    box.run(f"ln -s {secret} s; ln -s {tmp_path} d; ln -s /proc/1/root r; ln -s {secret} w")
    for path in ("s", "d/secret", f"r{secret}", "../" * 20 + str(secret)):
        with pytest.raises(OSError):
            box.files.read(path)
        with pytest.raises(OSError):
            box.files.write(path, "overwritten", parents=False)
    with pytest.raises(OSError):
        box.files.get("s", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    # With the directories above them these can be made, in the sandbox's own /tmp.
    box.files.put_many([("w", "overwritten"), ("d/made", "x")])
    assert secret.read_text() == "canary" and not (tmp_path / "made").exists()


def test_recursive_removal_follows_no_link(tmp_path):
    work = tmp_path / "work"
    with pycordon.Sandbox(workdir=work) as box:
        victim = tmp_path / "work-victim"
        victim.mkdir()
        (victim / "f").write_text("x")
        box.run(f"mkdir t; ln -s {victim} t/l; ln -s / t/root; ln -s .. t/up; touch keep")
        box.files.remove("t", recursive=True)
        assert (victim / "f").exists() and (work / "keep").exists() and not (work / "t").exists()


def test_fifos_devices_and_sockets_block_nobody(box):
    box.run(
        "mkfifo p; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'; "
        "ln -s /dev/zero z; ln -s p lp"
    )
    start = time.monotonic()
    for path in ("p", "s", "z", "lp", "/dev/zero", "/dev/null"):
        with pytest.raises(OSError):
            box.files.read(path)
        with pytest.raises(OSError):
            box.files.write(path, "x")
    assert time.monotonic() - start < ceiling(20)


def test_hostile_names_and_depth(box):
    code = """
import os
for name in (b"new\\nline", b"\\xff\\xfe", b"-rf", b" ", b"\\x1b[2J"):
    open(name, "wb").close()
for i in range(3000):
    os.mkdir("d"); os.chdir("d")
"""
    assert box.run_code(code, timeout=60).ok
    names = {i.name for i in box.files.list(".")}
    assert {"new\nline", os.fsdecode(b"\xff\xfe"), "-rf", " ", "\x1b[2J", "d"} == names
    assert box.files.read(os.fsdecode(b"\xff\xfe")) == b""
    box.files.remove("d", recursive=True)
    assert not box.files.exists("d")


def test_a_listing_has_a_size(box):
    """Long names inside each other: a hundred kilobytes of them are twenty megabytes of paths."""
    code = """
import os
for i in range(400):
    os.mkdir("n" * 250); os.chdir("n" * 250)
"""
    assert box.run_code(code, timeout=60).ok
    for ask in (lambda: box.files.list(".", depth=0), lambda: box.files.glob("**"), box.files.export_tar):
        with pytest.raises(OSError, match=r"more than 16 MiB; list less at once \(depth=1\)") as error:
            ask()
        assert error.value.errno == errno.E2BIG
    (one,) = box.files.list(".", depth=1)
    assert one.name == "n" * 250 and len(box.files.list(".", depth=100)) == 100
    box.files.remove(one.path, recursive=True)
    assert box.files.list(".") == []


def test_a_tree_that_changes_while_it_is_read(box):
    spinner = box.popen(
        "while :; do rm -rf t; mkdir -p t/a/b; ln -sfn / t/a/c; rm -rf t/a; ln -s / t/a; done"
    )
    try:
        for _ in range(50):
            try:
                for info in box.files.list("t", depth=0):
                    assert info.path.startswith("t/") and not info.path.startswith("t/a/usr")
            except OSError:
                pass
            try:
                box.files.remove("t", recursive=True, missing_ok=True)
            except OSError:
                pass
    finally:
        spinner.close()
    assert box.run("ls /usr").ok


def test_put_get_and_many(box, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"\0data")
    source.chmod(0o750)
    box.files.put(source, "dir/copy")
    assert box.files.stat("dir/copy").mode == 0o750
    box.files.get("dir/copy", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"\0data"
    errors = box.files.put_many([("m/1", "one"), ("/usr/2", "two"), ("m/3", b"three")])
    assert errors[0] is None and isinstance(errors[1], OSError) and errors[2] is None
    got = box.files.get_many(["m/1", "m/2", "m", "m/3"])
    assert got[0] == b"one" and isinstance(got[1], FileNotFoundError)
    assert isinstance(got[2], IsADirectoryError) and got[3] == b"three"
    assert box.files.put_many([]) == [] and box.files.get_many([]) == []


def test_archives(box, tmp_path):
    box.run("mkdir -p t/e; echo a > t/f; ln -s f t/l; chmod 700 t/f; mkfifo t/p")
    data = box.files.export_tar("t")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert sorted(tar.getnames()) == ["e", "f", "l"] and tar.getmember("f").mode == 0o700
    box.files.import_tar(data, "u")
    assert box.run("cat u/l; test -x u/f && ls u").stdout == "a\ne\nf\nl\n"
    for name, kind in (("../out", tarfile.REGTYPE), ("/abs", tarfile.REGTYPE), ("d", tarfile.CHRTYPE)):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            tar.addfile(entry)
        with pytest.raises(ValueError):
            box.files.import_tar(out.getvalue())


def test_workdir_of_the_host(tmp_path):
    with pycordon.Sandbox(workdir=tmp_path / "work") as box:
        assert box.host_workdir == tmp_path / "work" and box.workdir == str(tmp_path / "work")
        box.files.write("f", "x")
        assert (tmp_path / "work" / "f").read_text() == "x"
        (tmp_path / "work" / "g").write_text("y")
        assert box.files.read("g") == b"y"
        with pytest.raises(OSError):
            box.files.read(str(tmp_path / "state"))


@pytest.mark.parametrize("kind", ["", "gz", "bz2", "xz"])
def test_damaged_archives(box, kind):
    """They may come from a guest. Each kind of compression has its own way to say it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{kind}") as tar:
        entry = tarfile.TarInfo("f")
        entry.size = 100_000
        tar.addfile(entry, io.BytesIO(os.urandom(entry.size)))
    for bad in (out.getvalue()[:50_000], b""):
        with pytest.raises(pycordon.UsageError, match="damaged|no tar archive"):
            box.files.import_tar(bad)
    assert box.files.list() == []


def test_a_directory_cannot_be_put(box, tmp_path):
    for path in (tmp_path, os.fsencode(tmp_path)):
        with pytest.raises(IsADirectoryError) as caught:
            box.files.put(path, "x")
        assert caught.value.filename == str(tmp_path)


def test_limits_for_commands_do_not_bind_files():
    with pycordon.Sandbox(
        workdir=True, limits_wall="1s", limits_output=100, limits_cpu=0.1, commands=["true"], limits_procs=1
    ) as box:
        box.files.write("f", b"x" * 5_000_000)
        assert len(box.files.read("f")) == 5_000_000


def test_many_threads(box):
    failures = []

    def work(i):
        try:
            box.files.write(f"t/{i}", str(i))
            assert box.files.read(f"t/{i}") == str(i).encode()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(box.files.list("t")) == 20


def test_without_persist(tmp_path):
    box = pycordon.Sandbox(workdir=tmp_path / "w", persist=False)
    box.files.write("f", "x")
    assert (tmp_path / "w" / "f").read_text() == "x"


@pytest.mark.parametrize("settings, size", [({"limits_disk": "1M"}, "9M"), ({}, "260M")])
def test_a_sandbox_that_is_too_full_can_be_read_and_tidied_up(settings, size):
    """By a limit of its own, and by the default one."""
    with pycordon.Sandbox(**settings) as box:
        got = box.run(f"head -c {size} /dev/zero > /tmp/big; sleep 60")
        assert got.kind == "disk" and "files.remove()" in got.explain()
        assert box.run("sleep 60").kind == "disk"  # it still is
        assert "big" in [info.name for info in box.files.list("/tmp")]
        assert box.files.stat("/tmp/big").size > 1 << 20
        assert len(box.files.read("/tmp/big", limit=None)) > 1 << 20
        box.files.remove("/tmp/big")
        assert box.run("echo fine").stdout == "fine\n"


def test_archives_hold_no_placeholders(tmp_path):
    """They stand in the directory while anything runs that may write there."""
    work = tmp_path / "work"
    (work / "empty").mkdir(parents=True)
    with pycordon.Sandbox(workdir=work) as box:
        assert ".vscode" in box.run("ls -A").stdout  # the control
        data = box.files.export_tar(str(work))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert [name for name in tar.getnames() if name != "."] == ["empty"]
