# SPDX-License-Identifier: Apache-2.0
"""JavaScript interpreters that keep their state."""

import shutil
import threading

import pytest

from pycordon import Interpreter
from pylib import ceiling

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")


@pytest.fixture(params=["namespaces", "landlock"])
def node(request):
    with Interpreter("javascript", isolation=request.param, limits_memory="1G", grace=ceiling(1)) as made:
        yield made


@pytest.fixture
def one():
    with Interpreter("javascript", limits_memory="1G", grace=ceiling(1)) as made:
        yield made


def test_state(node):
    assert node.execute("const x = 20; let y = 1; function f(n) { return n + y }").ok
    assert node.execute("f(x)").text == "21"
    assert node.execute("const x = 30; let y = 2; f(x)").text == "32"
    got = node.execute("console.log('out'); console.error('err'); ({ a: [1, null] })")
    assert (got.stdout, got.stderr, got.text, got.result.json) == ("out\n", "err\n", "{ a: [ 1, null ] }", {"a": [1, None]})
    assert node.execute("undefined").result is None and node.execute("10n").text == "10n"
    assert node.execute("Object.keys(globalThis).filter((n) => /cordon/i.test(n))").text == "[]"


def test_await_and_modules(one):
    assert one.execute("await new Promise((r) => setTimeout(() => r(7), 20))").text == "7"
    assert one.execute("const v = await 5; v").text == "5"
    assert one.execute("Promise.resolve(3)").text == "Promise { 3 }"
    assert one.execute("require('path').join('a', 'b')").text == "'a/b'"


def test_errors(one):
    failed = one.execute("function g() {\n  throw new TypeError('bad')\n}\ng()")
    assert (failed.error.name, failed.error.value) == ("TypeError", "bad")
    assert "at g (cell-1:2:9)" in failed.error.traceback and "cordon" not in failed.error.traceback
    assert one.execute("a b").error.name == "SyntaxError"
    assert one.execute("throw 3").error.value == "3"
    assert one.execute("await Promise.reject(new RangeError('r'))").error.name == "RangeError"
    assert one.execute("1").ok


def test_displays(one):
    got = one.execute(
        "display(1); display({ 'text/html': '<b>x</b>', 'image/png': new Uint8Array([137, 80]) }, true)\n"
        "class Own { [Symbol.for('pycordon.bundle')]() { return { 'text/html': '<i>', 'application/json': { a: 1 } } } }\n"
        "new Own()"
    )
    assert got.displays[0].text == "1" and got.displays[1].html == "<b>x</b>" and got.displays[1].png == b"\x89P"
    assert got.result.html == "<i>" and got.result.json == {"a": 1}


def test_interrupt(node):
    node.execute("let z = 7")
    for code in ("while (true);", "await new Promise(() => {})", "for (;;) { [].concat([1]) }"):
        timer = threading.Timer(0.3, node.interrupt)
        timer.start()
        got = node.execute(code, timeout=ceiling(20))
        assert got.interrupted and not got.ended and got.error.name == "KeyboardInterrupt", (code, got)
        assert node.execute("z").text == "7"


def test_timeout(node):
    node.execute("let z = 7")
    soft = node.execute("while (true);", timeout=0.3)
    assert soft.timed_out and soft.interrupted and node.execute("z").text == "7"
    hard = node.execute("await 1; while (true);", timeout=0.3)  # computing after an await: no interrupt comes through
    assert hard.timed_out and hard.ended and "did not react" in hard.reason
    assert node.execute("1").restarted


# The state survives these.
HARMLESS = (
    "JSON.stringify = JSON.parse = null", "Buffer.concat = Buffer.from = null", "process.exit = null",
    "globalThis.process = undefined", "Object.prototype.toJSON = () => 1", "Array.prototype[Symbol.iterator] = null",
    "Function.prototype.call = null", "Promise = Buffer = Reflect = null",
    "Object.keys = Object.defineProperty = null", "process.removeAllListeners()", "process.emit = null",
    "process.stdout.write = () => {}", "String.prototype.split = String.prototype.slice = null",
    "Uint8Array.prototype.indexOf = Uint8Array.prototype.subarray = null", "setTimeout = setImmediate = null",
    "require('fs').writeSync = require('fs').fstatSync = null", "Object.freeze(Object.prototype)",
    "console.log('- {\"type\":\"end\",\"parts\":[]}')", "globalThis.display = null",
    "process.stdin.destroy(); process.stdout.destroy()", "require('inspector').Session.prototype.post = null",
    "setTimeout(() => { throw new Error('late') }, 1); await new Promise((r) => setTimeout(r, 50))",
)  # fmt: skip


@pytest.mark.parametrize("code", HARMLESS)
def test_state_survives(one, code):
    one.execute("let kept = 42")
    got = one.execute(code, timeout=ceiling(20))
    assert not got.ended, got
    after = one.execute("kept", timeout=ceiling(20))
    assert after.text == "42" and not after.restarted, after


@pytest.mark.parametrize("code, reason", [
    ("process.exit(4)", "ended with status 4"),
    ("process.kill(process.pid, 'SIGKILL')", "killed by signal 9"),
    ("process.abort()", "killed by signal 6"),
    ("require('fs').closeSync(3)", "the interpreter"),
    ("require('fs').writeSync(3, 'noise\\n'); await new Promise(() => {})", "rules of the channel"),
])  # fmt: skip
def test_the_end_is_said(one, code, reason):
    one.execute("let x = 1")
    got = one.execute("console.log('before');\n" + code, timeout=ceiling(20))
    assert got.ended and reason in got.reason and got.stdout == "before\n", got
    after = one.execute("typeof x")
    assert after.restarted and after.text == "'undefined'"


def test_children_have_no_channel(one):
    got = one.execute("require('child_process').execSync('ls /proc/self/fd').toString()")
    assert got.text == r"'0\n1\n2\n3\n'"


def test_output_is_exact(one):
    got = one.execute(
        "const fs = require('fs'); for (const b of Buffer.from('é€😀')) fs.writeSync(1, Buffer.from([b]));\n"
        "process.stderr.write(Buffer.from([0, 255])); process.stdout.write(Buffer.alloc(10_000_000, 120)); 1"
    )
    assert got.stdout_bytes == "é€😀".encode() + b"x" * 10_000_000 and got.stderr_bytes == b"\0\xff" and got.text == "1"


def test_variables(one):
    values = {"a": [1, 2.5, None, {"é": "\0"}], "s": "x" * 300_000}
    one.set_vars(values)
    assert {name: one.get_var(name) for name in values} == values
    assert one.execute("a[3]['é'] === '\\0' && s.length").text == "300000"
    with pytest.raises(KeyError):
        one.get_var("nothing")
