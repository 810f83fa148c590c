# SPDX-License-Identifier: Apache-2.0
"""A program in an interpreter that waited for it does what it does in a new one. Each snippet is run cold and
warm: JavaScript and bash. What differs is in docs/python.md, and here."""

import re
import shutil

import pytest

import pycordon
from pylib import until

_BASH = r"""
echo "$0" $# "$@" $BASH
echo ${BASH_SOURCE[@]} $LINENO ${BASH_EXECUTION_STRING-none}
echo $$ $PPID $BASHPID $SECONDS $SHLVL $((RANDOM >= 0)) $((SRANDOM >= 0))
echo $-; shopt; set -o; trap; alias; jobs; hash; history
env | sort; export -p
declare -p | grep -v "RANDOM\|EPOCH"
umask; pwd; id; ulimit -a; ls -A /tmp ~
ls /proc/$$/fd; ls -A /run/cordon; stat -c "%A %u %g %n" /run/cordon /run/cordon/*
cat /proc/$$/comm /proc/$$/cmdline; grep -E "^(Threads|Sig|Cap|NoNew|Seccomp|CoreD)" /proc/$$/status
cat
read x; echo "got $x"; cat
exec 3<&0; cat <&3
exit 3
exit 256
false
return 2
kill -TERM $$
kill -9 $$
kill -INT $$; echo on
trap "echo int" INT; kill -INT $$; echo on
trap "echo bye" EXIT; exit 4
trap "echo term; exit 6" TERM; kill $$; sleep 5
set -e; false; echo no
set -u; echo $nope
set -x; echo traced; f() { echo in; }; f
nope_command; echo $?
echo (
if true
cat <<HERE{n}here{n}HERE
f() { caller 0; echo ${FUNCNAME[@]}; }; f
echo $(( 1 / 0 )); echo on
exec 2>&1; nope_command
exec cat /proc/self/cmdline
. ./nope
sleep 0.02 & wait $!; echo $?; (exit 5); echo $?
coproc cat; echo x >&${COPROC[1]}; read -u ${COPROC[0]} y; echo $y
printf "no newline"; printf "more" >&2
#!/bin/sh{n}echo a comment
exec 1>&-; echo lost
ulimit -c; ulimit -n 70; ls /proc/self/fd
echo ${BASH_VERSINFO[0]} "$BASH_VERSION"; echo {1..3}; [[ abc =~ b(.) ]] && echo ${BASH_REMATCH[1]}
mapfile -t a; echo ${#a[@]} "${a[0]}"
""".strip().split("\n")  # fmt: skip

_LOOKS = """
console.log(process.argv, process.argv0, process.execArgv, process.execPath, process.title, __filename, __dirname);
console.log(Object.keys(require.cache), module.children, module.paths, module.id, require.main === module);
console.log(process.env, process.cwd(), process.umask(), process.getuid(), process.pid, process.ppid);
console.log(fs.readdirSync('/proc/self/fd').length, fs.openSync('/dev/null'), fs.readdirSync('/run/cordon'));
console.log(process.moduleLoadList, process._getActiveHandles().length, process.features, process.versions);
console.log(process.stdin.isTTY, process.stdout.isTTY, process.stdout.constructor.name, process.stdin.constructor.name);
console.log(Object.getOwnPropertyNames(globalThis), Object.keys(process), process.listenerCount('exit'));
console.log(new Error('here').stack, Error.stackTraceLimit, Intl.DateTimeFormat().resolvedOptions().timeZone);
console.log(fs.readFileSync('/proc/self/comm', 'utf8'), fs.readFileSync('/proc/self/cmdline', 'utf8'));
console.log(fs.readFileSync('/proc/self/status', 'utf8').match(/^(Threads|Sig|Cap|NoNew|Seccomp|CoreD).*/gm));
console.log(typeof process.hrtime.bigint(), process.uptime() > 0, process.config.variables.node_shared, process.allowedNodeEnvironmentFlags.size);
console.log(require('module').globalPaths, require('os').homedir(), require('os').tmpdir(), require('v8').getHeapStatistics().heap_size_limit);
const stat = fs.statSync(__filename); console.log(stat.mode, stat.uid, stat.gid, stat.size, this === module.exports, arguments.length);
"""

_NODE = r"""
process.exit(3)
process.exitCode = 4; process.on('exit', (c) => console.log('exit', c))
throw new Error('x')
function f() { throw new TypeError('deep') }{n}f()
throw {a: 1}
Promise.reject(new Error('lost'))
process.on('uncaughtException', (e) => console.log('caught', e.message)); throw new Error('x')
console.log(
import fs from 'fs'; console.log(fs)
import('fs').then((m) => console.log(typeof m.readFileSync, import.meta))
import('node:fs').then((m) => console.log(typeof m.readFileSync))
require('./nope')
process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 5000)
process.kill(process.pid, 'SIGKILL')
process.on('SIGINT', () => { console.log('int'); process.exit(7) }); process.kill(process.pid, 'SIGINT'); setTimeout(() => {}, 5000)
process.stdin.on('data', (d) => console.log('data', String(d))).on('end', () => console.log('end'))
console.log(require('fs').readFileSync(0, 'utf8')); console.error('error')
setImmediate(() => { console.log(3); setTimeout(() => console.log(4), 5) }); process.nextTick(() => console.log(1)); Promise.resolve().then(() => console.log(2))
const t = Date.now(); setTimeout(() => console.log(Date.now() - t >= 30, Date.now() - t < 5000), 40)
const { Worker } = require('worker_threads'); new Worker('console.log(process.argv, process.execArgv, process.env.LD_PRELOAD, Object.keys(require.cache))', { eval: true })
console.log(require('child_process').execFileSync(process.execPath, ['-p', 'Object.keys(process.env)'], { encoding: 'utf8' }))
console.log(require('child_process').spawnSync('sh', ['-c', 'env; ls /proc/self/fd; exit 3']))
process.stdout.write('no newline'); process.stderr.write('more')
console.log('a'.repeat(200000))
process.emitWarning('w'); require('fs').writeFileSync('/tmp/x', 'y'); console.log(require('fs').readFileSync('/tmp/x', 'utf8'))
const a = []; function g() { g() }{n}try { g() } catch (e) { console.log(e.message) }
#!/usr/bin/env node{n}console.log(__filename)
module.exports = 1; return
""".strip().split("\n")  # fmt: skip


def outcome(graded):
    """Numbers of processes are drawn by chance."""
    result = graded.result
    out, err = (re.sub(rb"\b\d{5,}\b|\bpid: \d+", b"PID", text) for text in (result.stdout_bytes, result.stderr_bytes))
    return result.kind, result.returncode, result.signal, out, err


def compare(language, snippets, **settings):
    """Cold and warm, each with something to read. The warm one takes only what waits, else it is no comparison."""
    programs = [pycordon.Program(code=code, language=language, stdin="in\nmore\n") for code in snippets]
    with pycordon.Pool(workers=2, parked=2, **settings) as pool:
        cold = [outcome(graded) for graded in pool.map(programs)]
    with pycordon.Pool(warm={language: 3}, workers=2, parked=2, **settings) as pool:
        held, warm, taken = pool._engine.held, [], []
        begin = held.begin
        held.begin = lambda args: taken.append(begin(args)) or taken[-1]
        for program in programs:
            until(lambda: len(held) >= 1, "none waits")
            warm += map(outcome, pool.map([program]))
    assert len(taken) == len(programs) and all(taken), "it was no warm start"
    for snippet, a, b in zip(snippets, cold, warm):
        for part, other in zip(a, b):
            assert part == other, snippet


def test_bash():
    snippets = [code.replace("{n}", "\n") for code in _BASH]
    compare("bash", [*snippets, b"echo \xff\xfe\x00; echo on", ""])


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
def test_javascript():
    snippets = [code.replace("{n}", "\n") for code in _NODE]
    compare("javascript", ["const fs = require('fs');\n" + _LOOKS, *snippets, ""], limits_memory="1G")
