# SPDX-License-Identifier: Apache-2.0
"""Languages that are compiled first: each of them, what is kept, and who waits."""

import asyncio
import os
import shutil
import threading
import time

import pytest

import pycordon
from pycordon import CommandNotFoundError, Pool, Program
from pylib import ceiling, until

HELLO = {
    "c": (
        '#include <stdio.h>\nint main(int n, char **v) { int x; scanf("%d", &x);'
        ' printf("%d %s\\n", x * 2, v[1]); return 3; }'
    ),
    "c++": (
        "#include <iostream>\nint main(int n, char **v) { int x; std::cin >> x;"
        ' std::cout << x * 2 << " " << v[1] << "\\n"; return 3; }'
    ),
    "go": (
        'package main\nimport ("fmt"; "os")\nfunc main() { var x int; fmt.Scan(&x);'
        " fmt.Println(x*2, os.Args[1]); os.Exit(3) }"
    ),
    "rust": (
        "use std::{env, io, process};\nfn main() { let mut s = String::new();"
        " io::stdin().read_line(&mut s).unwrap(); let x: i32 = s.trim().parse().unwrap();"
        ' println!("{} {}", x * 2, env::args().nth(1).unwrap()); process::exit(3); }'
    ),
    "java": (
        "import java.util.Scanner;\npublic class Doubled { public static void main(String[] a) {"
        ' System.out.println(new Scanner(System.in).nextInt() * 2 + " " + a[0]); System.exit(3); } }'
    ),
    "typescript": (
        'import * as fs from "fs";\nenum Times { two = 2 }\nconst x: number = parseInt(fs.readFileSync(0, "utf8"));\n'
        "console.log(x * Times.two, process.argv[2]); process.exit(3);"
    ),
}
SAYS = {
    "c": 'int main() { retrun "no"; }',
    "c++": "int main() { std::nothing x; }",
    "go": "package main\nfunc main() { retrun 1 }",
    "rust": "fn main() { let x: i32 = \"no\"; }",
    "java": "public class Main { void f() { return 1 } }",
    "typescript": "let x: = 3; (",
}
TOOLS = {"c": ["cc"], "c++": ["c++"], "go": ["go"], "rust": ["rustc"], "java": ["javac", "java"]}
NEEDED = ("c", "c++")  # of these the tests need a compiler


def has(language):
    if language == "typescript":
        return bool(shutil.which("node") and (shutil.which("esbuild") or shutil.which("tsc")))
    return all(map(shutil.which, TOOLS[language]))


def code(language, text, box, **arguments):
    """A run; the test is skipped if this machine has no tool chain, and says so in one line."""
    if language in NEEDED or has(language):
        return box.run_code(text, language, **arguments)
    try:
        return box.run_code(text, language, **arguments)  # a node that does it by itself
    except CommandNotFoundError as error:
        line = str(error)
        assert line.startswith("no ") and "was found in PATH" in line and "install" in line and "\n" not in line
        pytest.skip(line)


C = HELLO["c"]


def hello(name="x"):
    return f'#include <stdio.h>\nint main(void) {{ puts("{name}"); }}'


@pytest.mark.parametrize("language", HELLO)
def test_every_language(box, language):
    got = code(language, HELLO[language], box, stdin="21", args=["a b"])
    assert (got.stdout, got.exit_code, got.step) == ("42 a b\n", 3, "run"), got
    again = box.run_code(HELLO[language], language, stdin="4", args=["c"])
    assert again.stdout == "8 c\n"
    assert box.compiled()["compiled"] == 1 and box.compiled()["reused"] == 1


@pytest.mark.parametrize("language", SAYS)
def test_what_the_compiler_says(box, language):
    got = code(language, SAYS[language], box)
    assert got.step == "compile" and got.kind == "exited" and got.exit_code and not got.ok
    assert "main." in got.stderr.lower(), got.stderr
    lines = got.explain().splitlines()
    assert lines[0].startswith("The program was not compiled: the compiler ended with exit code ")
    assert len(lines) <= 3 and got.to_dict()["step"] == "compile" and "step='compile'" in repr(got)
    with pytest.raises(pycordon.RunError, match="was not compiled"):
        box.run_code(SAYS[language], language, check=True)
    assert box.compiled()["compiled"] == 1  # what it says is kept, too


def test_names_of_languages(box):
    for name in ("C", "c++", "cpp", "cxx", "CPP"):
        got = box.run_code("#ifdef __cplusplus\n#define X 7\n#else\n#define X 3\n#endif\nint main(void) { return X; }", name)
        assert got.exit_code == (3 if name == "C" else 7)
    assert box.run_code("console.log(1)", "nodejs").stdout == "1\n"


@pytest.mark.parametrize("language", ["c", "cpp", "go", "rust", "java", "ts"])
def test_a_missing_tool_chain_is_one_line(monkeypatch, language, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pycordon.Sandbox() as box, pytest.raises(CommandNotFoundError) as caught:
        box.run_code("", language)
    line = str(caught.value)
    assert line.startswith("no ") and "was found in PATH (" in line and "install" in line and "\n" not in line
    with Pool(workers=1) as pool:
        one, other = pool.map([{"code": "", "language": language}, {"code": "", "language": language}])
    assert one.verdict == other.verdict == "error" and one.message == line and one.result is None


def test_files_of_a_program(box):
    files = {"part.c": "int part(void) { return VALUE; }", "d/value.h": "#define VALUE 5", "data.txt": "data\n",
             "-part2.c": "int part2(void) { return 1; }"}  # fmt: skip
    files["part.c"] = '#include "d/value.h"\n' + files["part.c"]
    main = """#include <stdio.h>
    int part(void), part2(void);
    int main(int n, char **v) {
        char line[99]; FILE *f = fopen("/run/cordon/data.txt", "r");
        if (f) fgets(line, 99, f); printf("%d %s", part() + part2(), f ? line : "none"); }"""
    got = box.run_code(main, "c", files=files)
    assert got.stdout == "6 data\n", got
    files["d/value.h"] = "#define VALUE 6"
    assert box.run_code(main, "c", files=files).stdout == "7 data\n"
    assert box.run_code(main, "c", files=files, filename="other.c").stdout == "7 data\n"
    for bad in ("../x", "/x", "a//b"):
        with pytest.raises(pycordon.UsageError):
            box.run_code(main, "c", files={bad: ""})
        with pytest.raises(pycordon.UsageError):
            box.run_code(main, "c", filename=bad)


def test_a_compiled_program_has_the_rights_of_its_run(place):
    look = '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(getenv("A")); FILE *f = fopen("x", "w"); return !f; }'
    with pycordon.Sandbox(workdir=place / "work", env={"A": "sandbox"}) as box:
        assert box.run_code(look, "c", env={"A": "run"}).stdout == "run\n"
        assert (place / "work" / "x").exists()
        assert box.run_code("int main(void) { for (;;); }", "c", timeout=0.3).kind == "timeout"
        got = box.run_code("#include <stdlib.h>\n#include <string.h>\nint main(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
                           "c", limits_memory="32M")  # fmt: skip
        assert got.kind == "memory" and got.step == "run"
        lines = []
        assert box.run_code(hello("now"), "c", on_stdout=lines.append).ok and b"".join(lines) == b"now\n"
        assert box.run_code(hello("a"), "c", tty=True).stdout == "a\r\n"


def test_a_list_of_commands(place):
    with pycordon.Sandbox(allowed_commands=["sh", "cc"]) as box:
        got = box.run_code(hello(), "c")
        assert got.kind == "denied" and got.returncode == 126 and "a program in c is not one of" in got.explain()
        assert box.compiled()["compiled"] == 0
        assert asyncio.run(box_of(pycordon.AsyncSandbox(allowed_commands=["sh"]))).kind == "denied"
    if has("java"):
        with pycordon.Sandbox(allowed_commands=["java"]) as box:
            assert box.run_code(HELLO["java"], "java", stdin="1", args=["a"]).stdout == "2 a\n"


async def box_of(box):
    async with box:
        return await box.run_code(hello(), "c")


def test_java_names_and_memory(box):
    if not has("java"):
        code("java", "", box)  # says what is missing
    got = box.run_code('package a.b; class Other { } class Run { public static void main(String... a) { System.out.println("run"); } }', "java")
    assert got.stdout == "run\n", got
    # /* public class Wrong */ and "public class Wrong" are no classes.
    text = '/* public class Wrong */ record Pair(int a) {}\n// public class W\npublic class Right { static String s = "public class W"; '
    assert box.run_code(text + "public static void main(String[] a) { System.out.println(new Pair(1)); } }", "java").stdout == "Pair[a=1]\n"
    most = "public class Main { public static void main(String[] a) { System.out.println(Runtime.getRuntime().maxMemory() >> 20); } }"
    assert int(box.run_code(most, "java", limits_memory="200M").stdout) <= 120


def test_nothing_is_left(left):
    with pycordon.Pool(workers=1) as pool:
        assert pool.run_code(hello(), "c").ok
        assert not pool.run_code("int main(", "c").ok
        assert pool.usage().runs == 3  # both compilers, one program
    assert not left()


# --- what is kept --------------------------------------------------------------------------------


def test_one_compiler_for_many_threads(box):
    done = []
    threads = [threading.Thread(target=lambda: done.append(box.run_code(hello(), "c").stdout)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == ["x\n"] * 6 and box.compiled()["compiled"] == 1


def test_another_sandbox_compiles_for_itself(box):
    assert box.run_code(hello(), "c").ok and box.run_code(hello(), "c").ok
    with pycordon.Sandbox(persist=False) as other:
        assert other.run_code(hello(), "c").ok
        assert other.compiled()["compiled"] == 1 and other.compiled()["reused"] == 0
        other.restart()
        assert other.compiled() == {"compiled": 0, "reused": 0, "kept": 0, "bytes": 0}
        assert other.run_code(hello(), "c").ok


def test_a_run_with_fewer_rights_compiles_for_itself(place):
    """What a program was made of must be what its own run may see."""
    with pycordon.Sandbox() as box:
        assert box.run_code(hello(), "c").ok and box.run_code(hello(), "c", timeout=3, limits_memory="64M").ok
        assert box.compiled()["compiled"] == 1  # limits are the run's own
        assert box.run_code(hello(), "c", fs_deny=["/usr/share"]).ok
        assert box.compiled()["compiled"] == 2


def test_what_is_kept_has_bounds(box, monkeypatch):
    from pycordon import _builds

    monkeypatch.setattr(_builds, "_ENTRIES_MAX", 2)
    for name in "abca":
        assert box.run_code(hello(name), "c").stdout == f"{name}\n"
    assert box.compiled()["compiled"] == 4 and box.compiled()["kept"] == 2
    size = box.compiled()["bytes"]
    monkeypatch.setattr(_builds, "_KEPT_MAX", size)
    assert box.run_code(hello("b"), "c").ok and box.compiled()["bytes"] <= size


def test_a_forked_child_uses_what_was_made(box, host):
    done = host("""
        import os, pycordon
        code = '#include <stdio.h>\\nint main(void) { puts("x"); }'
        with pycordon.Sandbox() as box:
            assert box.run_code(code, "c").ok
            pid = os.fork()
            if pid == 0:
                ok = box.run_code(code, "c").stdout == "x\\n" and box.run_code(code + " ", "c").ok
                os._exit(0 if ok and box.compiled()["compiled"] == 2 else 1)
            assert os.waitpid(pid, 0)[1] == 0
            assert box.compiled()["compiled"] == 1 and box.run_code(code, "c").ok
    """)
    assert done.returncode == 0


# --- waiting -------------------------------------------------------------------------------------

ENDLESS = "#include __FILE__\n#include __FILE__\n"  # 2 to the power of 200 times


def test_a_compilers_time_and_memory(place):
    with pycordon.Sandbox(compile_timeout=0.5) as box:
        got = box.run_code(ENDLESS, "c")
        assert (got.kind, got.returncode, got.step) == ("timeout", 124, "compile")
        assert "0.5" in got.explain() or "500ms" in got.explain()
        assert "compile_timeout" in got.explain()
    with pycordon.Sandbox(compile_memory="48M") as box:
        got = box.run_code('#include "/dev/zero"\n', "c")
        assert (got.kind, got.step) == ("memory", "compile") and "compile_memory" in got.explain()
    for bad in ({"compile_timeout": -1}, {"compile_timeout": float("inf")}, {"compile_timeout": 0},
                {"compile_memory": "lots"}, {"compile_memory": None}):  # fmt: skip
        with pytest.raises(pycordon.PolicyError, match="compile_"):
            pycordon.Sandbox(**bad)


def test_the_limits_stay_with_a_sandbox(place):
    with pycordon.Sandbox(keep=True, compile_timeout=0.3) as box:
        box.start()
    again = pycordon.Sandbox.attach(box.id)
    assert again.run_code(ENDLESS, "c").kind == "timeout"
    again.destroy()


def test_the_programs_end_does_not_wait_for_a_compiler(host):
    began = time.monotonic()
    host("""
        import threading, time, pycordon
        box = pycordon.Sandbox(compile_timeout=600)
        code = "#include __FILE__\\n#include __FILE__\\n"
        threading.Thread(target=box.run_code, args=(code, "c"), daemon=True).start()
        while not any(build.engine for build in box._engine.builds._going_on.values()):
            time.sleep(0.01)
    """)
    assert time.monotonic() - began < ceiling(60)


def test_closing_ends_the_compiler(place):
    box = pycordon.Sandbox()
    failed = []

    def work():
        try:
            box.run_code(ENDLESS, "c")
        except pycordon.ClosedError as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: any(build.engine for build in box._engine.builds._going_on.values()), "it was not started")
    box.close()
    thread.join(ceiling(20))
    assert len(failed) == 1
    with pytest.raises(pycordon.ClosedError):
        box.run_code(hello(), "c")


def test_asyncio():
    async def main():
        async with pycordon.AsyncSandbox() as box:
            results = await asyncio.gather(*[box.run_code(hello(), "c") for _ in range(5)])
            assert [r.stdout for r in results] == ["x\n"] * 5 and box.compiled()["compiled"] == 1
            assert (await box.run_code("int main(", "c")).step == "compile"
            lines = []
            assert (await box.run_code(hello("y"), "c", on_stdout=lines.append)).ok and lines == [b"y\n"]
            # The loop goes on while a compiler works.
            one = asyncio.ensure_future(box.run_code(ENDLESS, "c"))
            other = asyncio.ensure_future(box.run_code(ENDLESS, "c"))
            builds = box._engine.builds._going_on
            while not any(build.engine for build in builds.values()):
                await asyncio.sleep(0.01)
            build = next(iter(builds.values()))
            one.cancel()
            await asyncio.wait([one])
            assert one.cancelled() and not build.is_unwanted  # the other one still waits
            other.cancel()
            await asyncio.wait([other])
            assert other.cancelled() and build.outcome.done() and not builds
            # Nothing of that is remembered.
            again = asyncio.ensure_future(box.run_code(ENDLESS, "c"))
            while not builds:
                await asyncio.sleep(0.01)
            again.cancel()
            await asyncio.wait([again])
        async with pycordon.AsyncPool(workers=2) as pool:
            programs = [{"code": hello(), "language": "c", "expected": "x"}] * 3 + [{"code": "int main(", "language": "c"}]
            graded = await pool.map(programs)
            assert [g.verdict for g in graded] == ["ok", "ok", "ok", "compile"] and "main.c:1" in graded[3].message
            assert pool.compiled()["compiled"] == 2

    asyncio.run(main())


# --- grading -------------------------------------------------------------------------------------


def test_verdicts():
    with Pool(workers=2, compile_timeout=2) as pool:
        got = pool.map([
            Program(code=C, language="c", stdin="2", args=["a"], checker=lambda result: False),
            Program(code=hello(), language="c", expected="x"),
            Program(code=hello(), language="c", expected="y"),
            Program(code="int main(void) { for (;;); }", language="c", timeout=0.3),
            Program(code="#include <stdlib.h>\nint main(void) { abort(); }", language="c"),
            Program(code="int main(", language="c"),
            Program(code=ENDLESS, language="c"),
            Program(code="print(1)", expected="1"),
            Program(code="print("),
            Program(code='#include <iostream>\nint main() { std::cout << "c++"; }', language="cpp", expected="c++"),
            # No guess from what a program prints.
            Program(code='#include <stdio.h>\nint main() { fputs("main.c:1:1: error: x\\n", stderr); return 1; }', language="c"),
        ])  # fmt: skip
    assert [g.verdict for g in got] == [
        "runtime", "ok", "wrong", "timeout", "runtime", "compile", "compile", "ok", "compile", "ok", "runtime",
    ]  # fmt: skip
    assert "main.c:1:" in got[5].message and got[5].result.step == "compile"
    assert "time limit of 2s" in got[6].message and got[6].result.kind == "timeout"
    assert "SyntaxError" in got[8].message


def test_one_program_and_many_inputs_is_compiled_once():
    double = '#include <stdio.h>\nint main(void) { int x; scanf("%d", &x); printf("%d", 2 * x); }'
    with Pool(workers=3) as pool:
        inputs = [str(i) for i in range(12)]
        answers = [str(2 * i) for i in range(12)]
        got = pool.map(Program(code=double, language="c"), inputs, expected=answers)
        assert all(g.ok for g in got) and pool.compiled()["compiled"] == 1
        bad = pool.map(Program(code="int main(", language="c"), inputs)
        assert [g.verdict for g in bad] == ["compile"] * 12 and pool.compiled()["compiled"] == 2
        got = asyncio.run(pool.amap(Program(code=double, language="c"), inputs, expected=answers))
        assert all(g.ok for g in got) and pool.compiled()["compiled"] == 2


def test_leaving_the_loop_ends_the_compilers():
    with Pool(workers=2) as pool:
        programs = [{"code": "1"}, {"code": ENDLESS, "language": "c"}, {"code": ENDLESS, "language": "c"}]
        for graded in pool.imap_unordered(programs):
            assert graded.index == 0
            break
        until(lambda: not pool._engine.builds._going_on, "the compiler goes on")
        assert pool.run_code(hello(), "c").ok


def test_a_program_is_needed_while_the_loop_that_compiles_it_is_not_served():
    with Pool(workers=2) as pool:
        results = pool.imap_unordered([{"code": "1"}, {"code": hello(), "language": "c"}])
        assert next(results).index == 0
        assert pool.run_code(hello(), "c").ok  # whoever asks gets it
        assert next(results).ok and pool.compiled()["compiled"] == 1
