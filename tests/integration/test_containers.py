# SPDX-License-Identifier: Apache-2.0
"""Where user namespaces are shut: level landlock by itself, level namespaces refused."""

import json
import os
import shutil
import subprocess

import pytest

from conftest import IS_ROOT, unavailable

# What Docker, Podman and containerd allow by default is long; what matters to Cordon is what they
# refuse without CAP_SYS_ADMIN. The profile below allows by default and refuses these, with the same
# answers (ENOSYS for clone3, EPERM for the rest).
NEW_ANY = 0x7E020000  # CLONE_NEW* as in the common profile

PROFILE = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    "syscalls": [
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        {
            "names": ["unshare", "setns", "mount", "umount2", "umount", "pivot_root", "open_tree", "move_mount", "fsopen",
                      "fsconfig", "fsmount", "fspick", "mount_setattr", "bpf", "perf_event_open", "keyctl", "add_key",
                      "request_key", "userfaultfd", "kexec_load", "init_module", "finit_module", "delete_module", "reboot",
                      "swapon", "swapoff", "quotactl", "open_by_handle_at", "name_to_handle_at", "syslog", "acct",
                      "io_uring_setup", "io_uring_enter", "io_uring_register", "kcmp", "process_vm_writev", "move_pages"],
            "action": "SCMP_ACT_ERRNO", "errnoRet": 1,
        },
        *[
            {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1,
             "args": [{"index": 0, "value": 1 << bit, "valueTwo": 1 << bit, "op": "SCMP_CMP_MASKED_EQ"}]}
            for bit in range(17, 31) if NEW_ANY >> bit & 1
        ],
    ],
}  # fmt: skip

# Docker's fourteen. No CAP_SYS_ADMIN.
CAPS = """CAP_CHOWN CAP_DAC_OVERRIDE CAP_FSETID CAP_FOWNER CAP_MKNOD CAP_NET_RAW CAP_SETGID CAP_SETUID CAP_SETFCAP
CAP_SETPCAP CAP_NET_BIND_SERVICE CAP_SYS_CHROOT CAP_KILL CAP_AUDIT_WRITE""".split()


def oci_config(me, argv, uid, rootless):
    caps = CAPS if uid == 0 else []
    namespaces = [{"type": t} for t in ("pid", "ipc", "uts", "mount", "network")]
    linux = {"namespaces": namespaces, "seccomp": PROFILE, "maskedPaths": ["/proc/kcore", "/proc/keys"],
             "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger"]}  # fmt: skip
    if rootless:
        namespaces.append({"type": "user"})
        linux["uidMappings"] = [{"containerID": uid, "hostID": me.uid, "size": 1}]
        linux["gidMappings"] = [{"containerID": uid, "hostID": me.gid, "size": 1}]
    bind = lambda path, *flags: {
        "destination": path,
        "type": "bind",
        "source": path,
        "options": ["rbind", *flags],
    }
    mounts = [
        bind("/usr", "ro"),
        bind("/etc", "ro"),
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "noexec", "nodev", "size=16m"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777", "size=64m"]},
        bind(str(me.base), "rw"),
        {"destination": "/opt", "type": "bind", "source": os.path.dirname(me.cordon), "options": ["rbind", "ro"]},
    ]  # fmt: skip
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False, "user": {"uid": uid, "gid": uid}, "args": [str(a) for a in argv],
            "env": ["PATH=/usr/bin:/bin", f"HOME={me.home}", "LANG=C.UTF-8"], "cwd": str(me.work),
            "capabilities": {k: caps for k in ("bounding", "effective", "permitted")},
            "noNewPrivileges": False,
        },
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "box",
        "mounts": mounts,
        "linux": linux,
    }  # fmt: skip


def root_tree(me, root):
    """The host's own system, bound into an otherwise empty root."""
    for name in ("usr", "etc", "proc", "dev", "tmp", "opt", "run", "var"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        if os.path.islink("/" + name):
            os.symlink(os.readlink("/" + name), root / name)
    os.chmod(root / "tmp", 0o1777)
    subprocess.run(["chown", "-Rh", f"{me.uid}:{me.gid}", str(root)], check=True)


class Container:
    def __init__(self, me, runtime, uid, rootless):
        self.me, self.runtime, self.uid, self.rootless = me, runtime, uid, rootless
        self.turn = 0
        self.noise = b""  # what the runtime itself writes: newuidmap complains about a user without a name

    def run(self, argv):
        done = self._run(argv)
        done.stderr = done.stderr.removeprefix(self.noise)
        return done

    def _run(self, argv):
        self.turn += 1
        bundle = self.me.mkdir(f"bundle-{self.turn}")
        root_tree(self.me, bundle / "rootfs")
        self.me.write(
            bundle / "config.json", json.dumps(oci_config(self.me, argv, self.uid, self.rootless))
        )
        state = self.me.mkdir(f"state-{self.turn}", 0o700)
        name = f"cordon-test-{os.getpid()}-{self.turn}-{self.uid}"
        options = [self.runtime, "--root", str(state)]
        if self.runtime.endswith("crun"):
            options += ["--cgroup-manager=disabled"]
        argv = [*options, "run", "-b", str(bundle), name]
        env = self.me.env(XDG_RUNTIME_DIR=str(state))
        if not IS_ROOT:
            return self.me.outside(argv, timeout=60, env=env)
        # crun refuses a hierarchy that mixes both versions of cgroups; give it a plain one.
        drop = (
            []
            if self.me.name == "root"
            else ["setpriv", f"--reuid={self.me.uid}", f"--regid={self.me.gid}", "--clear-groups"]
        )
        script = 'mount -t cgroup2 none /sys/fs/cgroup; exec "$@"'
        argv = ["unshare", "-m", "sh", "-c", script, "sh", *drop, *argv]
        return subprocess.run(
            argv,
            timeout=60,
            env=env,
            cwd=str(self.me.work),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )

    def cordon(self, opts, cmd):
        return self.run(
            [
                "/opt/" + os.path.basename(self.me.cordon),
                "run",
                *map(str, opts),
                "--",
                *map(str, cmd),
            ]
        )


CASES = [
    pytest.param(("crun", "root", 0), id="crun-rootful-as-root"),
    pytest.param(("crun", "root", 1000), id="crun-rootful-as-user"),
    pytest.param(("runc", "root", 0), id="runc-rootful-as-root"),
    pytest.param(("runc", "root", 1000), id="runc-rootful-as-user"),
    pytest.param(("crun", "user", 0), id="crun-rootless-as-root"),
    pytest.param(("crun", "user", 1000), id="crun-rootless-as-user"),
]


@pytest.fixture(params=CASES)
def container(request, me):
    runtime, starter, uid = request.param
    if me.name != starter:
        pytest.skip(f"started by {starter}")
    path = shutil.which(runtime, path="/usr/bin:/usr/sbin:/bin:/sbin")
    if not path:
        unavailable(f"{runtime} is not installed")
    if starter == "root" and uid:
        subprocess.run(["chown", "-R", f"{uid}:{uid}", str(me.work), str(me.home)], check=True)
    box = Container(me, path, uid, starter == "user")
    done = box.run(["/bin/true"])
    if done.returncode != 0:
        unavailable(f"{runtime} cannot run a container here: {done.stderr.decode()[:200]}")
    box.noise = done.stderr  # true(1) writes nothing
    # The control: the container does shut namespaces.
    assert box.run(["/usr/bin/unshare", "-U", "/bin/true"]).returncode != 0
    return box


def test_inside_a_container(me, container):
    done = container.cordon(["--json"], ["cat", "/proc/self/status"])
    assert done.returncode == 0, done
    got = json.loads(done.stdout)
    assert got["isolation"]["level"] == "landlock"
    assert {"mount", "pid", "net"} <= set(got["isolation"]["missing"])
    assert "CapEff:\t0000000000000000" in got["stdout"] and "Seccomp:\t2" in got["stdout"]
    if container.uid == 0:
        done = container.cordon(["--json", "-w", me.work], ["id", "-u"])
        got = json.loads(done.stdout)
        assert "uid" in got["isolation"]["missing"] and got["stdout"] == "0\n", got

    done = container.cordon(["--isolation", "namespaces"], ["touch", me.work / "ran"])
    assert done.returncode == 125 and done.stderr.startswith(b"cordon:"), done
    done = container.cordon(["--require", "net"], ["touch", me.work / "ran"])
    assert done.returncode == 125 and done.stderr.startswith(b"cordon:"), done
    done = container.cordon(["-w", me.work, "-p", "/no/such"], ["touch", me.work / "ran"])
    assert done.returncode == 125
    assert not (me.work / "ran").exists()


def test_confinement_inside_a_container(me, container, probes):
    """The view of a file that was not granted, writes, and a tree that ends."""
    canary = me.write(me.out / "canary", "canary")
    os.chmod(canary, 0o666)
    script = f"cat {canary}; echo x > {canary}; chmod 600 {canary}; echo fine > {me.work}/made; (setsid sleep 30 &) ; echo end"
    done = container.cordon(["-w", me.work], ["sh", "-c", script])
    assert done.stdout == b"end\n", done
    assert canary.read_text() == "canary" and canary.stat().st_mode & 0o777 == 0o666
    assert (me.work / "made").read_text() == "fine\n"
    done = container.cordon(["-t", "500ms"], ["sleep", "20"])
    assert done.returncode == 124, done
    done = container.cordon([], ["python3", "-c", "print('fine')"])
    assert done.stdout == b"fine\n", done


# --- a plain filter, as a sandbox around us would have -------------------------------------------


MODES = {"all": "landlock", "userns": "landlock", "mount": "landlock"}


@pytest.mark.parametrize("mode", MODES)
def test_under_a_filter(me, probes, mode):
    """unshare, clone(NEW*), mount and pivot_root refused, together or in part."""
    wrap = [probes["nonamespaces"], mode]
    canary = me.write(me.out / "canary", "canary")
    # The control: the filter does refuse.
    if mode in ("all", "userns"):
        assert me.outside(wrap + ["unshare", "-U", "true"]).returncode != 0
    done = me.outside(
        wrap + me.argv(["--json", "-w", me.work], ["sh", "-c", f"cat {canary}; echo end"])
    )
    assert done.returncode == 0, done
    got = json.loads(done.stdout)
    assert got["isolation"]["level"] == MODES[mode]
    assert got["stdout"] == "end\n"
    mark = me.work / "ran"
    done = me.outside(wrap + me.argv(["-w", me.work], ["touch", mark], "namespaces"))
    assert done.returncode == 125 and done.stderr.startswith(b"cordon:"), done
    assert not mark.exists()


@pytest.mark.parametrize("mode", ["landlock", "seccomp"])
def test_without_a_layer(me, probes, mode):
    """Landlock or filters refused by the kernel: nothing runs unless the receipt says what is missing."""
    wrap = [probes["nonamespaces"], mode]
    mark = me.work / "ran"
    done = me.outside(wrap + me.argv(["-w", me.work], ["touch", mark], "landlock"))
    assert done.returncode == 125 and not mark.exists(), done
    done = me.outside(wrap + me.argv(["--require", mode, "-w", me.work], ["touch", mark]))
    assert done.returncode == 125 and not mark.exists(), done
    assert mode.encode() in done.stderr.lower(), done
    done = me.outside(wrap + me.argv(["--json", "-w", me.work], ["touch", mark]))
    if mark.exists():
        assert done.returncode == 0
        got = json.loads(done.stdout)["isolation"]
        assert mode in got["missing"] and not [l for l in got["layers"] if l.startswith(mode)]
    else:
        assert done.returncode == 125
