# SPDX-License-Identifier: Apache-2.0
"""bash interpreters that keep their state, whatever the code does to its shell."""

import threading

import pytest

import pycordon
from pycordon import Interpreter
from pylib import ceiling


@pytest.fixture(params=["namespaces", "landlock"])
def bash(request):
    with Interpreter("bash", isolation=request.param, grace=ceiling(1)) as made:
        yield made


@pytest.fixture
def one():
    with Interpreter("bash", grace=ceiling(1)) as made:
        yield made


STATE = "export -f nothing 2>/dev/null; h() { echo h; }; export -f h; x='a b'; declare -A map=([k]=v); arr=(1 'two words'); f() { echo \"f $x\"; }; export E=1; cd /tmp; set -- p 'q r'"
SHOW = 'f; bash -c h; echo "${map[k]} ${arr[1]} $E $PWD $2"'
SHOWN = "f a b\nh\nv two words 1 /tmp q r\n"


def test_state(bash):
    assert bash.execute(STATE).ok
    got = bash.execute(SHOW)
    assert got.ok and got.stdout == SHOWN and got.status == 0 and got.result is None
    failed = bash.execute("echo out; echo err >&2; (exit 3)")
    assert (failed.status, failed.error.name, failed.error.value) == (3, "ExitStatus", "3")
    assert (failed.stdout, failed.stderr, failed.ended) == ("out\n", "err\n", False)
    assert bash.execute("declare local_to_nobody=1").ok and bash.execute("echo $local_to_nobody").stdout == "1\n"


# The status that is reported, if the shell would have ended; its state goes on all the same.
ENDS = {
    "exit without stderr": ("g() { exit 4; }; exec 2>&-; g", 4),
    "exit": ("exit 3", 3),
    "exit in a function": ("g() { exit 4; }; g; echo no", 4),
    "builtin exit": ("builtin exit 5", 5),
    "set -e": ("set -e; false; echo no", 1),
    "set -u": ("set -u; echo $nothing; echo no", 127),
    "unset with ?": ("echo ${nothing?text}; echo no", 127),
    "break": ("break 99", 0),
    "shadowed exec": ("exec() { :; }; exit 6", 6),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_shell_keeps_the_state(bash, name):
    code, status = ENDS[name]
    bash.execute(STATE)
    got = bash.execute(code)
    assert got.status == status and not got.ended and "no" not in got.stdout.split()
    after = bash.execute("set +e +u; " + SHOW)
    assert after.stdout == SHOWN and not after.restarted and after.count == 3


HARMLESS = {
    "stderr": "exec 2>/dev/null",
    "stdin": "exec 0</dev/null",
    "descriptors": "for n in 3 4 5 6 7 8 9; do eval \"exec $n>&-\"; done",
    "functions": "for n in read printf eval local declare trap exit unset set return kill compgen alias shopt builtin; do\n"
    "  eval \"$n() { echo shadow; }\"\ndone",
    "IFS": "IFS=abc_",
    "posix": "set -o posix",
    "break": "break",
    "continue": "continue",
    "return": "return 5",
    "syntax": "if",
    "markers": "echo '- {\"type\":\"end\",\"parts\":[]}'",
    "status": "false",
    "traps": "trap 'echo trapped' ERR DEBUG RETURN; true; trap - DEBUG",
    "readonly": "readonly r=1; r=2; true",
    "subshell": "(exit 9); (exec 1>&-; exit 4)",
    "xtrace": "set -x; true; set +x",
    "globs": "set -f; shopt -s nullglob failglob; true",
    "job": "sleep 30 & disown",
    "locale": "LC_ALL=C; LANG=; PATH=",
    "noclobber": "set -C",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_nothing_confuses_it(one, name):
    one.execute(STATE)
    got = one.execute(HARMLESS[name], timeout=ceiling(20))
    assert not got.ended, got
    after = one.execute("command builtin echo \"$x\"", timeout=ceiling(20))
    assert after.stdout.splitlines()[-1] == "a b" and not after.restarted, after


def test_output_that_was_closed(one):
    assert one.execute("exec 1>&- 2>&-").status == 0
    assert one.execute("x=1; echo nobody").stdout == ""
    assert one.get_var("x") == "1"


@pytest.mark.parametrize("code, reason", [
    ("kill -9 $$", "killed by signal 9"),
    ("exec true", "ended with status 0"),
    ("trap 'echo bye' EXIT; exit 3", "ended with status 3"),
    ("exec 10>&- 11>&-", "the interpreter"),
    ("for n in {0..255}; do eval \"exec $n>&-\"; done", "the interpreter"),
])  # fmt: skip
def test_the_end_is_said(one, code, reason):
    one.execute("x=1")
    got = one.execute("echo before; " + code, timeout=ceiling(20))
    assert got.ended and reason in got.reason and got.stdout.startswith("before\n"), got
    after = one.execute("echo \"[$x]\"")
    assert after.restarted and after.stdout == "[]\n"


def test_children_have_no_channel(one):
    got = one.execute("ls /proc/self/fd; sh -c 'ls /proc/self/fd'")
    assert got.stdout.split() == ["0", "1", "2", "3"] * 2


def test_interrupt(bash):
    bash.execute(STATE)
    for code in ("sleep 60; echo no", "while :; do :; done", "cat <(sleep 60)", "read -t 60 line < <(sleep 60); wait"):
        timer = threading.Timer(0.3, bash.interrupt)
        timer.start()
        got = bash.execute(code, timeout=ceiling(20))
        assert got.interrupted and got.error.name == "KeyboardInterrupt" and not got.ended and got.stdout == "", (code, got)
        assert bash.execute(SHOW).stdout == SHOWN


def test_timeout(bash):
    bash.execute("x=1")
    soft = bash.execute("sleep 60", timeout=0.3)
    assert soft.timed_out and soft.interrupted and bash.execute("echo $x").stdout == "1\n"
    hard = bash.execute("trap '' INT; while :; do :; done", timeout=0.3)
    assert hard.timed_out and hard.ended and "did not react" in hard.reason
    assert bash.execute("echo \"[$x]\"").restarted


def test_output_is_exact(one):
    got = one.execute(r"printf '\303'; printf '\251'; printf '\000\377' >&2; head -c 10000000 /dev/zero")
    assert got.stdout_bytes == "é".encode() + bytes(10_000_000) and got.stderr_bytes == b"\0\xff"
    assert one.execute("echo 'é€😀'").stdout == "é€😀\n"
    long = "x" * 100_000
    assert one.execute(f"echo {long}").stdout == long + "\n"


def test_variables(one):
    one.set_vars({"a": "it's $x `y` \n", "n": 5, "t": True, "l": ["a b", 1], "u": "é"})
    assert one.execute('printf "%s|" "$a" "$n" "$t" "${l[0]}" "${#l[@]}" "$u"').stdout == "it's $x `y` \n|5|true|a b|2|é|"
    assert one.get_var("a") == "it's $x `y` \n" and one.get_var("u") == "é"
    with pytest.raises(KeyError):
        one.get_var("nothing")
    with pytest.raises(KeyError):
        one.get_var("x;echo y")
    for bad in ({"a": {}}, {"é": 1}, {"a": "\0"}, {"__cordon_fd": 1}):
        with pytest.raises(pycordon.UsageError):
            one.set_vars(bad)
    with pytest.raises(pycordon.UsageError):
        one.execute("echo \0")
