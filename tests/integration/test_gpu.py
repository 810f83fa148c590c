# SPDX-License-Identifier: Apache-2.0
"""GPUs and other devices of the host, on a machine that has none: /dev is made of harmless nodes under
other names (fake_dev.py). What a real GPU does is tested by tests/gpu."""

import json
import os
import pathlib
import subprocess

import pytest

from conftest import IS_ROOT, ceiling

FAKE = pathlib.Path(__file__).with_name("fake_dev.py")
NVIDIA = ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"]
NVIDIA += ["nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap2"]
RENDER = ["dri/card0", "dri/renderD128", "dri/renderD129", "kfd"]
OTHERS = ["fuse", "kvm", "loop0", "mem"]
ALL = [*NVIDIA, *RENDER, *OTHERS]
OWN = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts/ptmx"}

# What can be seen in /dev, and what of the names in the arguments can be opened for reading and writing.
LOOK = r"""
import json, os, stat, sys
seen = []
for top, dirs, files in os.walk("/dev"):
    for name in files + dirs:
        path = os.path.join(top, name)
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            seen.append(path[5:])
opened = []
for name in sys.argv[1:]:
    try:
        os.close(os.open("/dev/" + name, os.O_RDWR | os.O_NOCTTY))
        opened.append(name)
    except OSError:
        pass
print(json.dumps([seen, opened, os.environ.get("CUDA_VISIBLE_DEVICES")]))
"""


def fake(me, nodes, argv, **kw):
    """Root prepares it, where the tests are root's."""
    kw = {"env": me.env(), "cwd": me.work, "capture_output": True, "check": False, **kw}
    argv = ["/usr/bin/python3", FAKE, str(me.uid), *nodes, "--", *argv]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=ceiling(60), **kw)


def look(me, level, *opts, nodes=ALL):
    if level == "landlock" and not IS_ROOT:
        pytest.skip("only root can make nodes that are not the same object")
    done = fake(me, nodes, me.argv(opts, ["/usr/bin/python3", "-c", LOOK, *ALL], level))
    assert done.returncode == 0, done.stderr
    seen, opened, cuda = json.loads(done.stdout)
    streams = {"fd", "stdin", "stdout", "stderr"}
    return {n for n in seen if n not in streams and not n.startswith("fd/")} - OWN, set(opened), cuda


def refusal(me, *opts, nodes=ALL, level=None):
    done = fake(me, nodes, me.argv(opts, ["/bin/true"], level))
    assert done.returncode == 125 and done.stdout == b"", done
    assert done.stderr.count(b"\n") == 1 and done.stderr.startswith(b"cordon: "), done.stderr
    return done.stderr.decode()


def test_outside_all_of_them_open(me):
    """The control: without a sandbox each node of the false /dev can be opened."""
    done = fake(me, ALL, ["/usr/bin/python3", "-c", LOOK, *ALL])
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)[1]) == set(ALL)


def test_without_the_option_there_is_no_device(me, level):
    seen, opened, cuda = look(me, level)
    assert (seen, opened, cuda) == (set(), set(), None)


def check_refused_level(me, value):
    """NVIDIA's libraries name threads in /proc and make Unix sockets: nothing starts half-working."""
    text = refusal(me, "--gpu", value, level="landlock")
    assert "NVIDIA's libraries do not work at level landlock" in text and "namespaces" in text


@pytest.mark.parametrize(
    "value, nodes, cuda",
    [
        ("0", {"nvidia0", "nvidiactl", "nvidia-uvm"}, "0"),
        ("1", {"nvidia1", "nvidiactl", "nvidia-uvm"}, "0"),
        ("1,0", {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"}, "0,1"),
        ("renderD129", {"dri/renderD129"}, None),
        ("3", {"dri/renderD129"}, None),
        ("none", set(), None),
        ("all", {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "dri/renderD128", "dri/renderD129"}, "0,1"),
    ],
)
def test_only_the_nodes_of_the_named_gpus(me, level, value, nodes, cuda):
    if level == "landlock" and cuda is not None:
        return check_refused_level(me, value)
    seen, opened, visible = look(me, level, "--gpu", value)
    assert opened == nodes and visible == cuda
    # Level landlock cannot list /dev at all.
    assert seen == (nodes if level == "namespaces" else set())
    return None


def test_the_last_value_counts_and_a_variable_can_be_set(me):
    assert look(me, None, "--gpu", "all", "--gpu", "none")[1] == set()
    got = look(me, None, "--gpu", "all", "-e", "CUDA_VISIBLE_DEVICES=1")
    assert got[2] == "1" and "nvidia0" in got[1]


def test_what_is_missing_is_named(me):
    assert "there is no GPU here" in refusal(me, "--gpu", "all", nodes=OTHERS)
    assert "no GPU '7' here (there are 4: 0 to 3;" in refusal(me, "--gpu", "7")
    assert "no GPU 'GPU-12ab' here" in refusal(me, "--gpu", "GPU-12ab")
    without = [n for n in ALL if n != "nvidia-uvm"]
    text = refusal(me, "--gpu", "0", nodes=without)
    assert "'/dev/nvidia-uvm'" in text and "nvidia-modprobe" in text


def test_a_name_must_be_one(me):
    for value in ("", "0,", "gpu0", "MIG-1", "-1", "all,0"):
        done = me.run([f"--gpu={value}"], ["/bin/true"])
        assert done.returncode == 125 and b"names no GPU" in done.stderr, (value, done.stderr)


def test_one_device_at_a_time(me, level):
    seen, opened, _ = look(me, level, "--device", "/dev/fuse")
    assert opened == {"fuse"} and seen == ({"fuse"} if level == "namespaces" else set())
    seen, opened, _ = look(me, level, "--device", "/dev/dri/renderD128", "--device", "/dev/kvm")
    assert opened == {"dri/renderD128", "kvm"}


def test_a_grant_of_a_device_names_the_option(me):
    for flag in ("-r", "-w"):
        done = me.run([flag, "/dev/full"], ["/bin/true"])
        assert done.returncode == 125 and b"--device PATH" in done.stderr and b"--gpu" in done.stderr


def test_what_every_run_has_may_be_named(me, level):
    assert look(me, level, "--device", "/dev/null")[1] == set()


HOST = [  # what the host has of it is not opened, only looked at
    ("/dev/kmsg", "the kernel's log"),
    ("/dev/mem", "the machine's memory"),
    ("/dev/port", "the machine's memory"),
    ("/dev/tty", "terminal"),
    ("/dev/console", "terminal"),
    ("/dev/tty0", "terminal"),
    ("/dev/ttyS0", "terminal"),
    ("/dev/ptmx", "terminal"),
    ("/dev/vcs", "screen"),
    ("/dev/loop-control", "disk"),
    ("/dev/btrfs-control", "disk"),
    ("/dev/userfaultfd", "kernel"),
    ("/dev/vsock", "network"),
    ("/dev/uinput", "typed"),
    ("/dev/loop0", "it is a disk"),
    ("/dev/vda", "it is a disk"),
    ("/dev/sda", "it is a disk"),
]


def test_some_devices_are_given_to_nobody(me):
    tried = 0
    for path, why in HOST:
        if not os.path.exists(path):
            continue
        tried += 1
        done = me.run(["--device", path], ["/bin/true"])
        assert done.returncode == 125 and why in done.stderr.decode(), (path, done.stderr)
    assert tried >= 2


def test_a_terminal_of_the_host_is_not_given(me):
    master, slave = os.openpty()
    try:
        os.chmod(os.ttyname(slave), 0o666)
        done = me.run(["--device", os.ttyname(slave)], ["/bin/true"])
        assert done.returncode == 125 and b"terminal" in done.stderr
    finally:
        os.close(master)
        os.close(slave)


def test_the_number_counts_and_not_the_name(me):
    """A forbidden node under another name is refused; so is a link that somebody may change."""
    me.write(me.base / "x")
    assert "kernel's log" in refusal(me, "--device", "/dev/fuse", nodes=["fuse=kmsg"])
    assert "terminal" in refusal(me, "--gpu", "0", nodes=["nvidia0=tty", "nvidiactl", "nvidia-uvm"])
    link = me.work / "device"
    for target in "/dev/kmsg", "/dev/full":
        link.unlink(missing_ok=True)
        os.symlink(target, link)
        done = me.run(["--device", link], ["/bin/true"])
        assert done.returncode == 125 and b"does not lie in /dev" in done.stderr


def test_no_file_and_no_directory(me):
    for path in (me.write(me.work / "file"), me.work):
        done = me.run(["--device", path], ["/bin/true"])
        assert done.returncode == 125 and b"it is no device" in done.stderr
    done = me.run(["--device", "/dev/nothing-here"], ["/bin/true"])
    assert done.returncode == 125 and b"no such file" in done.stderr


def test_a_closed_node_names_group_and_remedy(me):
    """Root's node of mode 0600, or the group's of mode 0660: nobody is given it by Cordon."""
    if not os.path.exists("/dev/vga_arbiter") and not os.path.exists("/dev/hwrng"):
        pytest.skip("there is no closed node here that could be given")
    path = "/dev/hwrng" if os.path.exists("/dev/hwrng") else "/dev/vga_arbiter"
    done = me.run(["--device", path], ["/bin/true"], "namespaces")
    if os.stat(path).st_mode & 0o006 == 0o006:
        assert done.returncode == 0
    else:
        assert done.returncode == 125 and b"may not read and write it" in done.stderr
        assert b"chmod 666" in done.stderr or b"group" in done.stderr


def test_the_plan_says_it(me):
    done = fake(me, ALL, me.argv(["--gpu", "0", "--dry-run"], ["/bin/true"], "namespaces"))
    plan = json.loads(done.stdout)
    ops = [o for o in plan["steps"] if o["path"].startswith("/dev/nvidia")]
    assert {o["path"] for o in ops} == {"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}
    assert all("device" in o["flags"] and "identity" in o["flags"] for o in ops), ops


def test_device_requests_only_where_they_are_given(me):
    """Landlock's right (ABI 5) is in the rules of the given nodes."""
    done = fake(me, ALL, me.argv(["--gpu", "renderD129", "--device", "/dev/fuse", "--dry-run"], ["/bin/true"], "landlock"))
    ops = json.loads(done.stdout)["steps"]
    given = {o["path"] for o in ops if "ioctl-dev" in o.get("rights", "") and o["path"].startswith("/dev/")}
    assert given - {"/dev/" + name for name in OWN} == {"/dev/dri/renderD129", "/dev/fuse"}




def test_check_lists_them(me):
    done = fake(me, ALL, [me.cordon, "check", "--json"])
    items = {i["name"]: i for i in json.loads(done.stdout)["layers"] if i["name"].startswith("gpu")}
    assert list(items) == ["gpu 0", "gpu 1", "gpu 2", "gpu 3"]
    assert all(i["state"] == "yes" for i in items.values()), items
    assert "/dev/nvidia1" in items["gpu 1"]["detail"] and "renderD129" in items["gpu 3"]["detail"]
    done = fake(me, [n for n in ALL if n != "nvidiactl"], [me.cordon, "check", "--json"])
    items = {i["name"]: i for i in json.loads(done.stdout)["layers"] if i["name"].startswith("gpu")}
    assert items["gpu 0"]["state"] == "no" and "/dev/nvidiactl" in items["gpu 0"]["detail"]
    assert "nvidia-modprobe" in items["gpu 0"]["remedy"] and items["gpu 2"]["state"] == "yes"
    done = fake(me, OTHERS, [me.cordon, "check", "--json"])
    items = [i for i in json.loads(done.stdout)["layers"] if i["name"].startswith("gpu")]
    assert len(items) == 1 and items[0]["state"] == "no" and items[0]["remedy"]


def sysfs():
    """Two GPUs of AMD and one of Intel."""
    made = ["/sys/devices/virtual/kfd/kfd/topology/nodes/0/name=cpu", "/sys/class/net/secret=x"]
    for number, vendor, driver in ((128, "0x1002", "amdgpu"), (129, "0x1002", "amdgpu"), (130, "0x8086", "i915")):
        real = f"/sys/devices/pci0000:00/0000:{number - 125:02}:00.0"
        made += [f"{real}/vendor={vendor}", f"{real}/drm/renderD{number}/dev=226:{number}"]
        made += [f"{real}/driver->../../../bus/pci/drivers/{driver}"]
        made += [f"/sys/class/drm/renderD{number}->../../devices/pci0000:00/0000:{number - 125:02}:00.0/drm/renderD{number}"]
        made += [f"{real}/drm/renderD{number}/device->../.."]
    return [f"dri/renderD{n}" for n in (128, 129, 130)] + ["kfd", "dri/card0"] + made


FIND_SYS = r"""
import os
for top, dirs, files in os.walk("/sys"):
    for name in files + [d for d in dirs if os.path.islink(os.path.join(top, d))]:
        path = os.path.join(top, name)
        print(path, "->" if os.path.islink(path) else "", os.path.realpath(path) if os.path.islink(path) else open(path).read())
"""


def test_what_of_sys_a_render_node_needs(me):
    amd = "/sys/devices/pci0000:00/0000:04:00.0"
    show = lambda *opts: fake(me, sysfs(), me.argv(opts, ["/usr/bin/python3", "-c", FIND_SYS], "namespaces")).stdout.decode()
    got = show("--gpu", "renderD129")
    assert f"{amd}/vendor  0x1002" in got and "/sys/devices/virtual/kfd/kfd/topology/nodes/0/name  cpu" in got
    assert f"/sys/dev/char/226:129 -> {amd}/drm/renderD129" in got
    assert f"/sys/class/drm/renderD129 -> {amd}/drm/renderD129" in got
    assert f"/sys/bus/pci/devices/0000:04:00.0 -> {amd}" in got
    assert "0000:03" not in got and "0000:05" not in got and "secret" not in got and "renderD128" not in got
    got = show("--gpu", "2")
    assert "0000:05:00.0/vendor  0x8086" in got and "kfd" not in got and "0000:04" not in got
    assert show() == ""
    done = fake(me, sysfs(), me.argv(["--gpu", "1"], ["sh", "-c", f"echo x > {amd}/vendor || echo x > {amd}/new"], "namespaces"))
    assert done.returncode != 0 and b"ead-only" in done.stderr or b"denied" in done.stderr


def test_what_of_sys_is_readable_without_namespaces(me):
    script = "cat /sys/devices/pci0000:00/0000:0{3,4}:00.0/vendor /sys/class/net/secret 2>/dev/null; true"
    run = lambda *opts: fake(me, sysfs(), me.argv(opts, ["bash", "-c", script], "landlock")).stdout
    assert run("--gpu", "renderD129") == b"0x1002" and run("--gpu", "all") == b"0x10020x1002" and run() == b""


def test_the_nodes_of_amd(me):
    amd = fake(me, sysfs(), me.argv(["--gpu", "0"], ["/usr/bin/python3", "-c", LOOK, "dri/renderD128", "dri/renderD129", "kfd", "dri/card0"]))
    assert json.loads(amd.stdout)[1:] == [["dri/renderD128", "kfd"], None]
    intel = fake(me, sysfs(), me.argv(["--gpu", "renderD130"], ["/usr/bin/python3", "-c", LOOK, "dri/renderD130", "kfd"]))
    assert json.loads(intel.stdout)[1:] == [["dri/renderD130"], None]


def test_the_drivers_libraries_are_shown(me):
    """Where the loader does not look: the directory is shown, and a variable names it."""
    if list(pathlib.Path("/usr/lib").glob("**/libcuda.so.1")) or not os.path.isdir("/opt"):
        pytest.skip("this machine has the library, or no /opt")
    where = "/opt/somewhere/lib64"
    nodes = ["nvidia0", "nvidiactl", "nvidia-uvm", where + "/libcuda.so.1=a library", "/opt/other/secret=x"]
    script = f"echo $LD_LIBRARY_PATH; cat {where}/libcuda.so.1; cat /opt/other/secret"
    env = me.env(LD_LIBRARY_PATH=where)
    argv = lambda *opts: me.argv(opts, ["sh", "-c", script], "namespaces")
    done = fake(me, nodes, argv("--gpu", "0"), env=env)
    assert done.stdout.decode() == f"{where}\na library", done
    done = fake(me, nodes, argv(), env=env)
    assert done.stdout == b"\n", done
    # One of the places that drivers use, without any variable.
    usual = "/opt/nvidia/lib64"
    nodes = ["nvidia0", "nvidiactl", "nvidia-uvm", usual + "/libcuda.so.1=a library"]
    done = fake(me, nodes, me.argv(["--gpu", "0"], ["sh", "-c", f"echo $LD_LIBRARY_PATH; cat {usual}/libcuda.so.1"], "namespaces"))
    assert done.stdout.decode() == f"{usual}\na library", done


def test_a_missing_library_is_told_and_a_home_is_not_shown(me):
    nodes = ["nvidia0", "nvidiactl", "nvidia-uvm"]
    done = fake(me, nodes, me.argv(["--gpu", "0"], ["/bin/true"]))
    assert done.returncode == 0
    (me.home / "libcuda.so.1").write_text("x")
    os.chmod(me.home / "libcuda.so.1", 0o644)
    env = me.env(LD_LIBRARY_PATH=str(me.home))
    done = fake(me, nodes, me.argv(["--gpu", "0"], ["sh", "-c", f"ls {me.home}; echo done"], "namespaces"), env=env)
    assert b"libcuda" not in done.stdout and b"done" in done.stdout, done


def test_a_specification_in_yaml_is_told(me):
    """On a terminal, and only where it is missed."""
    if list(pathlib.Path("/usr/lib").glob("**/libcuda.so.1")) or not os.path.isdir("/opt"):
        pytest.skip("this machine has the library, or no /opt")
    nodes = ["nvidia0", "nvidiactl", "nvidia-uvm"]
    yaml = ["/var/run/cdi/nvidia.yaml=cdiVersion: 0.6.0"]

    def told(*more):
        master, slave = os.openpty()
        argv = me.argv(["--gpu", "0"], ["/bin/true"], "namespaces")
        done = fake(me, [*nodes, *more], argv, capture_output=False, stdout=subprocess.DEVNULL, stderr=slave)
        # Something to read in any case, and less than a terminal keeps.
        os.write(slave, b"end")
        text = b""
        while not text.endswith(b"end"):
            text += os.read(master, 4096)
        os.close(slave)
        os.close(master)
        assert done.returncode == 0, text
        return text

    missing = b"libcuda.so.1 is not where the loader looks"
    assert missing in told() and b"YAML" not in told()
    text = told(*yaml)
    assert missing in text and b"'/var/run/cdi/nvidia.yaml' is YAML" in text and b"--format=json" in text
    assert told(*yaml, "/opt/nvidia/lib64/libcuda.so.1=a library") == b"end"


# What an unprivileged process may write in a /proc of its own, and what it must not.
WRITE = r"""
import os, sys, threading
def attempt(path, data, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    try:
        fd = os.open(path, flags, 0o666)
    except OSError:
        return "refused"
    try:
        os.write(fd, data)
    except OSError:
        return "not taken"
    finally:
        os.close(fd)
    return "written"
def thread():
    tid = threading.get_native_id()
    print("comm", attempt(f"/proc/self/task/{tid}/comm", b"cuda00001400006"))
    print("name", open(f"/proc/self/task/{tid}/comm").read().strip())
t = threading.Thread(target=thread); t.start(); t.join()
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/ns_last_pid",
             "/proc/1/oom_score_adj", "/proc/1/comm", "/proc/1/mem", "/proc/1/clear_refs", "/proc/irq/0/smp_affinity",
             "/proc/driver/nvidia/registry", "/proc/mtrr", "/proc/keys", "/proc/timer_list", "/proc/interrupts"):
    if os.path.exists(path):
        print(path, attempt(path, b"1"))
"""


def test_threads_can_be_named_and_nothing_else_of_proc_is_written(me):
    """NVIDIA's library needs the first; the rest is closed by the files' own modes and the mount."""
    run = lambda *opts: fake(me, ALL, me.argv(opts, ["/usr/bin/python3", "-c", WRITE], "namespaces")).stdout.decode().splitlines()
    given, without = run("--gpu", "0"), run()
    assert given[:2] == ["comm written", "name cuda00001400006"], given
    assert without[0] == "comm refused", without
    for line in given[2:] + without[2:]:
        assert line.endswith("refused"), line
    assert len(given) > 6
