# SPDX-License-Identifier: Apache-2.0
"""Policy and SandboxConfig: every key by every name, and what a run may change."""

import dataclasses
import json
import math
import subprocess
from datetime import timedelta

import pytest

import pycordon
from pycordon import CordonError, Env, Fs, Limits, Net, Policy, PolicyError, SandboxConfig, _cordon, _flags, _keys

VALUES = {
    "preset": "python",
    "fs.read": ["/usr/share"],
    "fs.write": ["/tmp"],
    "fs.deny": ["/etc/secret"],
    "fs.workspace": "/srv",
    "fs.protect": False,
    "cwd": "/usr",
    "env.pass": ["EDITOR", "GIT_*"],
    "env.set": {"A": "b c"},
    "commands": ["sh", "ls"],
    "gpu": [0, "GPU-12ab"],
    "devices": ["/dev/fuse"],
    "net.allow": ["example.com", "*.example.org:443"],
    "net.deny": ["bad.example.com"],
    "net.publish": [8080, "9000:80"],
    "net.max": "64M",
    "limits.wall": 1.5,
    "limits.grace": "2s",
    "limits.memory": 64 << 20,
    "limits.procs": 12,
    "limits.cpu": 0.5,
    "limits.cpu_time": timedelta(seconds=9),
    "limits.open_files": 99,
    "limits.disk": "32M",
    "limits.file_size": "1M",
    "limits.output": 5000,
    "limits.output_end": True,
    "isolation": "auto",
    "require": ["seccomp"],
    "best_effort": ["disk"],
    "user": "4242",
}


def test_every_key_of_the_schema_has_a_value_here():
    assert set(_keys.schema_keys()) == set(VALUES)


@pytest.mark.parametrize("key", sorted(VALUES))
def test_every_key_can_be_given(key):
    made = Policy(**{key.replace(".", "_"): VALUES[key]})
    again = Policy.from_json(made.to_json())
    assert again.effective() == made.effective()
    if key != "preset":
        assert key in made.effective()
        assert json.loads(made.to_json())["version"] == 1


def test_plain_names():
    for name, value, key, want in (
        ("max_execution_seconds", 5, "limits.wall", "5s"),
        ("max_memory_mb", 64, "limits.memory", "64M"),
        ("max_procs", 3, "limits.procs", 3),
        ("max_cpu_percent", 50, "limits.cpu", 0.5),
        ("max_output_bytes", 2048, "limits.output", "2K"),
        ("writable_paths", ["/tmp"], "fs.write", ["/tmp"]),
        ("allowed_commands", ["ls"], "commands", ["ls"]),
    ):
        assert Policy(**{name: value}).get(key.replace(".", "_")) == want, name
    assert set(_keys.PLAIN) < {field.name for field in dataclasses.fields(SandboxConfig)}


def test_ports_are_numbers_or_texts():
    for settings in (
        {"net_publish": 80}, {"net_publish": ["80"]}, {"net": Net(publish=[80])}, {"net": {"publish": 80}},
    ):  # fmt: skip
        assert Policy(**settings).get("net_publish") == ["80"], settings


def test_nested_groups():
    flat = Policy(fs_read=["/a"], net_allow=["x.org"], env_set={"A": "b"}, limits_procs=3)
    assert flat == Policy(
        fs=Fs(read=["/a"]), net=Net(allow=["x.org"]), env=Env(set={"A": "b"}), limits=Limits(procs=3)
    )
    nested = {"fs": {"read": ["/a"]}, "net": {"allow": ["x.org"]}}
    assert flat == Policy.from_dict({**nested, "env": {"set": {"A": "b"}}, "limits": {"procs": 3}})
    assert hash(flat) == hash(Policy.from_dict(flat.to_dict())) and "fs_read" in repr(flat)


def test_mistakes_are_one_line_with_the_remedy():
    for settings, words in (
        ({"max_memmory_mb": 1}, ["max_memmory_mb", "did you mean 'max_memory_mb'?"]),
        ({"fs_reed": []}, ["did you mean 'fs_read'?"]),
        ({"limits": {"wal": 1}}, ["limits.wal"]),
        ({"limits_memory": "lots"}, ["limits.memory", "lots"]),
        ({"limits_procs": 1.5}, ["whole number"]),
        ({"limits_procs": -1}, ["limits.procs"]),
        ({"limits_wall": -1}, ["no duration"]),
        ({"limits_wall": True}, ["a number is needed"]),
        ({"fs_read": 5}, ["a list of strings is needed"]),
        ({"fs_protect": "yes"}, ["existing"]),
        ({"net_allow": ["http://x"]}, ["net.allow"]),
        ({"network_enabled": True}, ["net_allow="]),
        ({"network_enabled": False, "net_allow": ["x.org"]}, ["contradicts"]),
        ({"limits_wall": 1, "max_execution_seconds": 2}, ["same setting"]),
        ({"preset": "pyhton"}, ["pyhton"]),
        ({"env": {"A": "b"}}, ["env.A"]),
    ):
        with pytest.raises(PolicyError) as caught:
            Policy(**settings)
        text = str(caught.value)
        assert "\n" not in text and all(word in text for word in words), text
        assert isinstance(caught.value, (pycordon.CordonError, ValueError))


def test_config_is_what_it_says():
    stated = SandboxConfig().policy().effective()
    assert stated == {
        "limits.wall": "30s",
        "limits.memory": "256M",
        "limits.cpu": 0.5,
        "limits.output": "1000000",
    }
    more = SandboxConfig(net_allow=["x.org"], writable_paths=["/tmp"], allowed_commands=["ls"])
    assert more.policy().get("net_allow") == ["x.org:80,443"]
    with pytest.raises(PolicyError):
        SandboxConfig(network_enabled=True).policy()


def test_the_ways_to_configure_a_sandbox(tmp_path):
    (tmp_path / "p.json").write_text('{"limits": {"procs": 7}, "fs": {"read": ["./data"]}}')
    (tmp_path / "data").mkdir()
    for config in (
        {"limits": {"procs": 7}},
        {"max_procs": 7},
        Policy(limits_procs=7),
        SandboxConfig(max_procs=7),
        str(tmp_path / "p.json"),
        tmp_path / "p.json",
    ):
        made = pycordon.Sandbox(config)
        assert made.policy.get("limits_procs") == 7
        assert pycordon.Sandbox(config, limits_procs=3).policy.get("limits_procs") == 3
    assert made.policy.get("fs_read") == [str(tmp_path / "data")]
    assert pycordon.Sandbox("strict").policy.get("limits_procs") == 32
    with pytest.raises(PolicyError, match="did you mean 'python'"):
        pycordon.Sandbox("pyton")
    with pytest.raises(pycordon.CordonError):
        pycordon.Sandbox("./missing.json")


def test_merging():
    base = Policy(fs_read=["/a"], limits_procs=9, net_allow=["x.org"])
    made = base.merged(fs_read=["/b"], limits_procs=5)
    assert made.get("fs_read") == ["/a", "/b"] and made.get("limits_procs") == 5
    assert base.get("limits_procs") == 9
    assert base.merged(network_enabled=False).get("net_allow") in ([], None)
    assert "limits.wall" in Policy(limits_wall=math.inf).unlimited
    assert "limits.wall" not in Policy(limits_wall=math.inf).merged(limits_wall=3).unlimited


BASE = dict(
    fs_read=["/usr/share"], fs_write=["/srv"], net_allow=["x.org:80,443"], limits_memory="64M", limits_procs=9,
    limits_wall=10, commands=["sh", "ls"], isolation="namespaces", gpu="0,1", devices=["/dev/fuse"],
)  # fmt: skip
TIGHTER = [
    {"fs_read": ["/usr/share/doc"]}, {"fs_read": ["/srv"]}, {"fs_read": []}, {"fs_write": []},
    {"net_allow": ["x.org:443"]}, {"net_allow": []}, {"limits_memory": "32M"}, {"limits_procs": 9}, {"limits_wall": 10},
    {"commands": ["ls"]}, {"fs_deny": ["/srv/x"]}, {"require": ["pid"]}, {"limits_cpu": 1},
    {"limits_open_files": 4000}, {"isolation": "namespaces"}, {"fs_protect": True}, {"fs_protect": "on"}, {"limits_output": 10},
    {"gpu": "1"}, {"gpu": [1, 0]}, {"gpu": "none"}, {"devices": []}, {"devices": ["/dev/fuse"]},
]  # fmt: skip
LOOSER = [
    {"fs_read": ["/etc"]}, {"fs_read": ["/usr/share2"]}, {"fs_read": ["/srv/x"]},
    {"fs_write": ["/"]},
    {"fs_write": ["/srv/../etc"]}, {"fs_write": ["/usr/share"]}, {"net_allow": ["y.org"]},
    {"net_allow": ["x.org:22"]}, {"limits_memory": "65M"}, {"limits_memory": math.inf}, {"limits_procs": 10},
    {"limits_wall": "11s"}, {"limits_wall": math.inf}, {"commands": ["cat"]}, {"isolation": "landlock"},
    {"isolation": "auto"}, {"fs_protect": False}, {"fs_protect": "existing"}, {"net_publish": [80]}, {"env_pass": ["SECRET"]},
    {"best_effort": ["disk"]}, {"user": "5"}, {"fs_workspace": "/srv"},
    {"gpu": "all"}, {"gpu": 2}, {"devices": ["/dev/kvm"]},
]  # fmt: skip


@pytest.mark.parametrize("settings", TIGHTER, ids=str)
def test_tightening_is_allowed(settings):
    args = pycordon._job.RunArguments("true", overrides=settings)
    pycordon.Sandbox(Policy(**BASE))._engine.policies.for_run(args)


@pytest.mark.parametrize("settings", LOOSER, ids=str)
def test_loosening_is_refused(settings):
    args = pycordon._job.RunArguments("true", overrides=settings)
    with pytest.raises(PolicyError, match="more than its sandbox"):
        pycordon.Sandbox(Policy(**BASE))._engine.policies.for_run(args)
    pycordon.Sandbox(Policy(**BASE), allow_overrides=True)._engine.policies.for_run(args)


def test_gpus_are_named_in_many_ways():
    for value, text in ((0, "0"), ("all", "all"), ([0, 1], "0,1"), (["GPU-ab"], "GPU-ab"), ([], "none")):
        assert Policy(gpu=value).effective()["gpu"] == text
    for value in (True, 1.5, {"0": 1}, b"0", [None], "-1", "first"):
        with pytest.raises(PolicyError, match="gpu"):
            Policy(gpu=value)
    doc = Policy(gpu=[0, 1], devices=["fuse"]).effective()
    assert _flags.flags_of(doc, "/dev") == ["--gpu", "0,1", "--device", "/dev/fuse"]


def test_devices_are_given_or_refused_with_a_reason():
    with pycordon.Sandbox(devices=["/dev/zero"], persist=False) as box:
        assert box.run(["head", "-c", "3", "/dev/zero"]).stdout == "\0\0\0"
    with pytest.raises(CordonError, match="cannot give the device '/dev/tty': it is a terminal"):
        pycordon.run("true", devices=["/dev/tty"])
    with pytest.raises(CordonError, match="it is no device") as caught:
        pycordon.run("true", devices=["/usr"])
    assert "fs_read" in caught.value.hint or "fs_write" in caught.value.hint
    with pytest.raises(CordonError, match="/dev") as caught:
        pycordon.run("true", fs_write=["/dev/full"])
    assert "devices" in caught.value.hint and "--" not in caught.value.hint


def test_links_that_a_run_left_are_no_grants(tmp_path):
    """Inside a write grant a guest decides what a name means."""
    work, secret = tmp_path / "work", tmp_path / "secret"
    work.mkdir()
    secret.mkdir()
    (secret / "key").write_text("SECRET")
    with pycordon.Sandbox(workdir=work, persist=False) as box:
        assert box.run(["ln", "-s", str(secret), "way"]).ok
        assert (work / "way/key").read_text() == "SECRET"  # so it would lead out
        for settings in ({"fs_read": [work / "way"]}, {"fs_read": [work / "way/key"], "fs_write": []}):
            with pytest.raises(PolicyError, match="more than its sandbox"):
                box.run(["cat", str(work / "way/key")], **settings)
        with pytest.raises(CordonError):
            box.run(["cat", str(work / "way/key")], fs_write=[work / "way"])
        (work / "sub").mkdir()
        with pytest.raises(PolicyError, match="may become a link"):
            box.run("true", fs_write=[], fs_read=[work / "sub"])
        # The directory itself is not the guest's to replace.
        (work / "f").write_text("text")
        got = box.run("cat f; touch g", fs_write=[], fs_read=[work])
        assert got.stdout == "text" and not (work / "g").exists()


def test_defaults_are_no_statements():
    box = pycordon.Sandbox(persist=False)
    got = box.run("ulimit -n", timeout=60, limits_memory="1G", limits_open_files=2048)
    assert got.stdout.strip() == "2048"
    with pytest.raises(PolicyError):
        box.run("true", fs_write=["/srv"])


def test_tightens():
    base = Policy(**BASE)
    assert base.tightens(base) and Policy(**{**BASE, "limits_memory": "32M"}).tightens(base)
    assert not Policy(**{**BASE, "limits_memory": "128M"}).tightens(base)
    assert not Policy().tightens(base)  # without limits that are stated
    assert not Policy(**{**BASE, "fs_deny": []}).tightens(base.merged(fs_deny=["/srv/x"]))


def test_run_overrides_apply(tmp_path):
    work = tmp_path / "work"
    with pycordon.Sandbox(workdir=work) as box:
        assert box.run("echo x > f").ok
        got = box.run("echo x > g", fs_write=[])
        assert not got.ok
        assert not (work / "g").exists() and (work / "f").exists()
        assert box.run("ulimit -n", policy=Policy(limits_open_files=33)).stdout.strip() == "33"
        assert box.run("ulimit -n", policy={"limits_open_files": 34}).stdout.strip() == "34"


def test_every_flag_of_wrap_is_one_of_the_command():
    help_text = subprocess.run(
        [pycordon.command(), "run", "--help"], capture_output=True, text=True, check=True
    ).stdout
    table = {**_flags._REPEATED, **_flags._SINGLE, **_flags._JOINED}
    for flag in (*table.values(), "--no-protect", "--end-on-output", "--private"):
        assert flag in help_text, flag
    assert set(_flags.KEYS) | {"preset"} == set(VALUES)


def test_values_are_not_seen_in_the_command_line():
    with pycordon.Sandbox(persist=False, env_set={"FIRST": "one"}) as box:
        seen = " ".join(box.wrap(["env"], env={"TOKEN": "SECRET"}))
        assert "TOKEN=SECRET" in seen  # where the caller starts it, there is no other way
        with box.spawn_popen(
            ["/bin/sh", "-c", "read x; env"],
            env={"TOKEN": "SECRET", "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as popen:
            words = list(popen.args)
            out, _ = popen.communicate(b"\n")
    assert "TOKEN" in words and not any("SECRET" in word or "one" in word for word in words)
    assert {b"TOKEN=SECRET", b"FIRST=one", b"PATH=/usr/bin:/bin"} <= set(out.split(b"\n"))


def test_wrap_is_accepted_by_the_command(tmp_path):
    work = tmp_path / "work"
    box = pycordon.Sandbox(
        workdir=work, fs_read=["/usr/share"], fs_deny=["/usr/share/doc"], env={"A": "b c"},
        env_pass=["EDITOR"], limits_memory="64M", limits_procs=20, limits_cpu=1.5, limits_cpu_time="9s", limits_open_files=99,
        limits_disk="32M", limits_file_size="1M", limits_output=5000, limits_output_end=True, limits_grace="1s", limits_wall=9,
        commands=["sh", "echo", "cat"], require=["seccomp"], best_effort=["disk"],
        isolation="auto", fs_protect=False,
    )  # fmt: skip
    argv = box.wrap(["sh", "-c", 'echo "$A"; echo x > made; echo y > /tmp/private'])
    assert argv[0] == pycordon.command() and "--" in argv
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stdout) == (0, "b c\n"), done.stderr
    assert (work / "made").read_text() == "x\n"
    assert box.run("cat /tmp/private").stdout == "y\n"  # the same private files
    with box.spawn_popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as popen:
        assert popen.communicate(b"through")[0] == b"through"
    box.close()
    net = pycordon.Sandbox(net_allow=["x.org"], net_deny=["y.org"], net_max="1M", persist=False)
    done = subprocess.run([*net.wrap(["true"])], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_allowed_commands():
    with pycordon.Sandbox(allowed_commands=["ls", "cat", "python3"]) as box:
        assert box.run("ls / | cat").ok and box.run(["ls", "/"]).ok
        for cmd in ("ls; rm -rf /", ["rm", "x"], "A=1 head x", "ls | xargs -n1 ls", "! tail /x"):
            got = box.run(cmd)
            assert (got.kind, got.returncode) == ("denied", 126), cmd
            assert "not one of the allowed commands" in got.explain()
        # What stands behind a substitution is no program.
        assert box.run("cat $(ls /etc/hostname) /etc/hosts").ok
        assert box.run("cat $(rm x) /etc/hosts").kind == "denied"
        # What cannot be read before is refused by the kernel.
        hidden = box.run("c=rm; $c /x; echo $?")
        assert hidden.kind == "exited" and hidden.stdout.strip() == "126"
        assert box.run_code("print(6 * 7)").stdout == "42\n"
        assert box.run_code("import os; os.execv('/bin/echo', ['echo', 'x'])").returncode != 0
    assert pycordon.run(["echo", "x"], allowed_commands=[]).kind == "denied"


def test_schema_is_the_librarys():
    assert json.loads(_cordon.policy_schema())["title"] == "Cordon policy"
