# SPDX-License-Identifier: Apache-2.0
"""`cordon explain` reads receipts, also those that nobody vouches for."""

import json
import shlex

import pytest

pytestmark = pytest.mark.once


def explain(me, receipt):
    path = me.write(me.base / "receipt", receipt if isinstance(receipt, (str, bytes)) else json.dumps(receipt))
    done = me.outside([me.cordon, "explain", path])
    return done, done.stdout.decode()


def receipt(*denials):
    return {"kind": "exited", "exit_code": 1, "denials": list(denials)}


def denial(fix, target="x", what="read"):
    return {"what": what, "target": target, "rule": "fs.read", "fix": fix, "how": "said"}


def test_the_options_of_a_receipt_work(me, level):
    me.write(me.out / "my data", "x")
    script = f"cat '{me.out}/my data' && touch {me.out}/new || {{ touch {me.out}/new; false; }}"
    file = me.base / "r.json"
    assert me.run(["--receipt", file], ["sh", "-c", script], level).returncode == 1
    done = me.outside([me.cordon, "explain", file])
    text = done.stdout.decode()
    assert done.returncode == 0 and text.startswith("the run ended: exited, with status 1\nit was refused:\n"), done
    opts = shlex.split(text.splitlines()[-1])
    assert opts == ["-w", str(me.out)], text  # which shows what lies in it
    assert me.run(opts, ["sh", "-c", script], level).returncode == 0, text
    piped = me.outside(["sh", "-c", f"'{me.cordon}' explain - < {file}"])
    assert piped.stdout == done.stdout


def test_a_run_that_was_refused_nothing(me):
    got = me.receipt([], ["false"], "namespaces")
    assert explain(me, got)[1] == "the run ended: exited, with status 1\nnothing was refused that is known of\n"


def test_equal_options_come_once(me):
    _, text = explain(me, receipt(denial("-r /a", "1"), denial("-r /a", "2"), denial("-w /b", "3")))
    assert text.splitlines()[-1] == "  -r /a -w /b"
    _, text = explain(me, receipt(denial("-r '/b/c d'"), denial("-r /bc"), denial("-w /b"), denial("-r sub/x"), denial("-w .")))
    assert text.splitlines()[-1] == "  -r /bc -w /b -w ."


@pytest.mark.parametrize("fix", [
    "; rm -rf ~", "-r /a; rm x", "-r $(id)", "-r `id`", "-r /a | sh", "-r /a > /etc/x", "-r 'a", "-r a\nb", "-r \x1b[2J", "rm -rf /",
    "--no-such-option x", "-- rm", "--receipt /etc/passwd", "-r " + "a" * 5000, "-r src -- rm -rf build", "-r", "-r -w", "-r a b",
    "-r /etc/shadow", "-r src -w /", "-w /usr", "-r ~/.ssh", "-r a --net-allow 0.0.0.0/0", "--net-allow *", "--device /dev/kvm", "--gpu all",
    "-x", "-", "", "-r ~root", "-r *", "-r \u202e",
])  # fmt: skip
def test_what_is_no_option_is_not_shown(me, fix):
    done, text = explain(me, receipt(denial(fix)))
    assert done.returncode == 0 and "no option is suggested" in text and "options that allow" not in text, text


def test_keys_are_not_shown(me):
    """Also by another name: what counts is where a path leads."""
    keys = me.home / ".ssh"
    keys.mkdir(mode=0o700, exist_ok=True)
    me.own(keys)
    (me.work / "harmless").symlink_to(keys)
    for path in keys, f"{keys}/id_rsa", me.home, me.work / "harmless":
        _, text = explain(me, receipt(denial(f"-r {path}"), denial("-r /bc")))
        assert text.splitlines()[-1] == "  -r /bc", text


def test_that_of_a_session(me):
    _, text = explain(me, {"session": "x", "receipt": receipt(denial("-r /a"))})
    assert text.splitlines()[-1] == "  -r /a"


def test_words_are_escaped(me):
    done, text = explain(me, {**receipt(denial(None, "\x1b[2J\n\r\u202e", "\x1b]0;x\x07")), "kind": "\x1b[2J"})
    assert done.returncode == 0 and all(c.isprintable() or c == "\n" for c in text) and text.count("\n") == 3, text


@pytest.mark.parametrize("bad", [
    "", "{", "[]", "null", "1", '"x"', "{}", '{"kind": "exited"}', '{"denials": []}', '{"kind": 1, "denials": []}',
    '{"kind": "exited", "denials": {}}', '{"kind": "exited", "denials": [1]}', '{"kind": "exited", "denials": [{}]}',
    '{"kind": "exited", "denials": [{"what": 1, "target": "", "rule": "", "how": ""}]}', "[" * 100000, b"\xff\xfe", b"\0" * 100,
], ids=range(17))  # fmt: skip
def test_what_is_no_receipt_is_one_line(me, bad):
    done, text = explain(me, bad)
    assert done.returncode == 125 and text == "" and done.stderr.count(b"\n") == 1, done


def test_what_more_is_known_is_shown(me):
    """How often, and which program; both are words of a file that nobody vouches for."""
    more = {"count": 3, "errno": 13, "program": "\x1b]0;x\x07curl"}
    _, text = explain(me, receipt({**denial("-r /a", "1"), **more}))
    assert "  read '1' (fs.read, said, by '" in text and "curl', 3 times): -r /a\n" in text, text
    assert all(c.isprintable() or c == "\n" for c in text), text
    for bad in {"count": "3"}, {"count": -1}, {"count": 1.5}, {"program": 7}, {"errno": "x"}:
        done, text = explain(me, receipt({**denial("-r /a", "1"), **bad}))
        assert done.returncode == 0 and "  read '1' (fs.read, said): -r /a\n" in text, (bad, text)


def test_very_many(me):
    done, text = explain(me, receipt(*(denial(f"-r /{n}") for n in range(20000))))
    assert done.returncode == 0 and text.count("\n") < 110 and "and 19900 more" in text
    done = me.outside([me.cordon, "explain", "/dev/zero"])
    assert done.returncode == 125 and b"too long" in done.stderr
    assert me.outside([me.cordon, "explain", "/no/such"]).returncode == 125
    assert me.outside([me.cordon, "explain"]).returncode == 125
