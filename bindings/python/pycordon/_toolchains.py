# SPDX-License-Identifier: Apache-2.0
"""Languages whose programs are compiled before they run: which compiler, its command line, and how what
it makes is run. Nothing here starts anything.

A compiler is started in a directory with the program's files and writes to the directory MADE beside it.
Names of files come from the caller: none of them is taken for an option.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ._errors import CommandNotFoundError
from ._native import caller_home

#: Where a compiler leaves what it makes, as it sees that.
MADE = "../made"
#: Directory of compiled programs in a Drop. A name that no file beside code is likely to have.
PROGRAM = ".program"
#: Exit code of the script below if this node cannot do it.
TOO_OLD = 66
#: Variables that tell tools where they are installed. The compiler gets them from the caller.
PLACES = ("RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "CARGO_HOME", "GOROOT", "JAVA_HOME")
#: Executes a program by its path in the sandbox, which is none of the host.
_EXEC = ("/bin/sh", "-c", 'exec "$0" "$@"')

_TRANSPILE = r"""
"use strict";
const fs = require("fs"), path = require("path");
const [where, format, ...names] = process.argv.slice(1);
const ts = where ? require(where) : null, strip = require("module").stripTypeScriptTypes;
if (!ts && !(process.features.typescript && strip)) process.exit(66);
let status = 0;
for (const name of names) {
    const text = fs.readFileSync(name, "utf8");
    let code = "", out = name;
    if (ts) {
        const made = ts.transpileModule(text, { fileName: name, reportDiagnostics: true, compilerOptions: {
            target: ts.ScriptTarget.ES2020, esModuleInterop: true, experimentalDecorators: true,
            module: format === "esm" ? ts.ModuleKind.ESNext : ts.ModuleKind.CommonJS } });
        for (const said of made.diagnostics) {
            status = 1;
            process.stderr.write(ts.formatDiagnostic(said, { getCurrentDirectory: () => process.cwd(),
                getCanonicalFileName: (x) => x, getNewLine: () => "\n" }));
        }
        code = made.outputText;
        out = name.replace(/\.([mc]?)tsx?$/, ".$1js");
    } else {
        try {
            code = strip(text, { mode: "transform" });
        } catch (error) {
            status = 1;
            process.stderr.write(`${name}: ${error.name}: ${error.message}\n`);
        }
    }
    out = path.join("../made", out);
    fs.mkdirSync(path.dirname(out), { recursive: true });
    fs.writeFileSync(out, code);
}
process.exit(status);
"""


@dataclass(frozen=True)
class Program:
    """How a compiled program is run: ``argv`` with the path of ``shown`` at ``index``, where ``shown``
    and ``entry`` are names in its Drop, and ``place`` is the directory there with all that was made."""

    argv: Tuple[str, ...]
    index: int
    shown: str
    entry: str
    place: str


@dataclass(frozen=True)
class Recipe:
    """How one program is compiled. ``tools``: the files that make a difference to what comes of it, the
    compiler first."""

    command: Tuple[str, ...]
    variables: Mapping[str, str]
    tools: Tuple[str, ...]
    program: Program
    is_go: bool = False
    may_be_too_old: bool = False  # exit code TOO_OLD says so

    @property
    def entry_made(self) -> str:
        """The file that has to be there when the compiler is done."""
        return os.path.relpath(self.program.entry, self.program.place or ".")


@dataclass(frozen=True)
class Request:
    """What is known when a recipe is made."""

    filename: str
    text: str
    names: Tuple[str, ...]  # of all files
    path: str  # PATH
    memory: int  # bytes for the compiler
    heap: Optional[int]  # bytes for the heap of a run


@dataclass(frozen=True)
class Compiled:
    """A language. ``recipe`` gives None if this machine has no tool for it. ``is_native``: its programs
    are executed themselves, and by no other one."""

    name: str
    filename: str
    recipe: Callable[[Request], Optional[Recipe]]
    missing: str
    remedy: str
    is_native: bool = True

    def find(self, request: Request) -> Recipe:
        """The recipe for one program; CommandNotFoundError says in one line what is missing."""
        found = self.recipe(request)
        if found is None:
            raise self.not_found()
        return found

    def not_found(self) -> CommandNotFoundError:
        """What is said where there is no tool chain."""
        return CommandNotFoundError(f"no {self.missing} was found in PATH", hint=self.remedy)


def _which(request: Request, *names: str) -> Optional[str]:
    """The first of these programs that there is."""
    return next((found for name in names for found in [shutil.which(name, path=request.path)] if found), None)


def _word(name: str) -> str:
    """A file's name that no program takes for an option or for a list of options."""
    return f"./{name}" if name.startswith(("-", "@")) else name


def _sources(request: Request, *suffixes: str) -> List[str]:
    """The program's file, and those beside it that belong to the language."""
    others = [name for name in request.names if name.endswith(suffixes) and name != request.filename]
    return [_word(name) for name in [request.filename, *sorted(others)]]


_NATIVE = Program((*_EXEC, ""), len(_EXEC), f"{PROGRAM}/main", f"{PROGRAM}/main", PROGRAM)


def _c_like(
    compilers: Sequence[str], kind: str, standard: str, suffixes: Tuple[str, ...]
) -> Callable[[Request], Optional[Recipe]]:
    def recipe(request: Request) -> Optional[Recipe]:
        compiler = _which(request, *compilers)
        if compiler is None:
            return None
        sources = _sources(request, *suffixes)
        command = (
            compiler, "-O2", f"-std={standard}", "-pthread", "-o", f"{MADE}/main", "-x", kind, *sources,
            "-x", "none", "-lm",
        )  # fmt: skip
        return Recipe(command, {"LC_ALL": "C.UTF-8"}, (compiler,), _NATIVE)

    return recipe


def _rust(request: Request) -> Optional[Recipe]:
    compiler = _which(request, "rustc")
    if compiler is None:
        return None
    command = (
        compiler, "-O", "--edition", "2021", "--crate-name", "main", "--color", "never", "-o", f"{MADE}/main",
        _word(request.filename),
    )  # fmt: skip
    variables, home = {}, caller_home()
    # rustup finds the compiler by the caller's home, which is another one inside.
    if os.path.basename(os.path.realpath(compiler)) == "rustup" and "RUSTUP_HOME" not in os.environ and home:
        variables["RUSTUP_HOME"] = os.path.join(home, ".rustup")
    return Recipe(command, variables, (compiler,), _NATIVE)


#: Nothing is fetched, and nothing of the caller's settings takes part. Without its index of packages, since
#: a package that is missing there counts as one that does not exist, and it cannot be added to.
GO_VARIABLES = {
    "GOENV": "off", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOTELEMETRY": "off", "CGO_ENABLED": "0",
    "GOFLAGS": "", "GODEBUG": "goindex=0",
}  # fmt: skip

#: What is compiled ahead of Go's standard library: what small programs use.
GO_PACKAGES = (
    "bufio", "bytes", "container/heap", "container/list", "context", "crypto/md5", "crypto/sha256",
    "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json", "errors", "flag", "fmt", "io", "log",
    "math", "math/big", "math/bits", "math/cmplx", "math/rand", "os", "path", "path/filepath", "reflect",
    "regexp", "runtime/debug", "sort", "strconv", "strings", "sync", "sync/atomic", "text/tabwriter",
    "text/template", "time", "unicode", "unicode/utf8",
)  # fmt: skip
#: Likewise, since Go 1.21 and 1.22.
GO_NEWER = ("cmp", "maps", "slices", "math/rand/v2")


def _go(request: Request) -> Optional[Recipe]:
    compiler = _which(request, "go")
    if compiler is None:
        return None
    at_top = [name for name in _sources(request, ".go") if "/" not in name.replace("./", "", 1)]
    files = ["."] if "go.mod" in request.names else [f for f in at_top if not f.endswith("_test.go")]
    command = (compiler, "build", "-p", "4", "-o", f"{MADE}/main", *files)
    return Recipe(command, GO_VARIABLES, (compiler,), _NATIVE, is_go=True)


#: Comments and strings of Java. Each alternative fits wherever it begins, so this takes linear time.
_NOISE = re.compile(r"/\*(?:[^*]|\*(?!/))*(?:\*/)?|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"?")
_PACKAGE = re.compile(r"^[ \t]*package[ \t]+([A-Za-z_$][\w$.]{0,200})[ \t]*;", re.M)
_TYPE = re.compile(r"\b(public[ \t\r\n]+)?(?:(?:abstract|final|sealed|strictfp)[ \t\r\n]+){0,3}"
                   r"(?:class|record|enum|interface)[ \t\r\n]+([A-Za-z_$][\w$]{0,200})")  # fmt: skip
_MAIN = re.compile(r"\bvoid[ \t\r\n]+main[ \t\r\n]*\(")


_HEAP_MIN = 16 << 20


def java_names(text: str) -> Tuple[str, str]:
    """The name that a Java program's file must have, and its main class: the public one, else the one
    with main()."""
    bare = _NOISE.sub(" ", text)
    main, name = _MAIN.search(bare), None
    for found in _TYPE.finditer(bare):
        if found.group(1):
            name = found.group(2)
            break
        if name is None or (main is not None and found.start() < main.start()):
            name = found.group(2)
    package = _PACKAGE.search(bare)
    name = name or "Main"
    return f"{name}.java", f"{package.group(1)}.{name}" if package else name


def _java(request: Request) -> Optional[Recipe]:
    compiler, java = _which(request, "javac"), _which(request, "java")
    if compiler is None or java is None:
        return None
    command = (
        compiler, f"-J-Xmx{max(_HEAP_MIN, request.memory * 6 // 10)}", "-J-XX:+UseSerialGC", "-encoding", "UTF-8", "-proc:none", "-d", MADE,
        *_sources(request, ".java"),
    )  # fmt: skip
    name = java_names(request.text)[1]
    entry = f"{PROGRAM}/{name.replace('.', '/')}.class"
    heap = () if request.heap is None else (f"-Xmx{max(_HEAP_MIN, request.heap)}",)
    argv = (java, "-XX:+UseSerialGC", "-XX:-UsePerfData", *heap, "-cp", "", name)
    program = Program(argv, argv.index("-cp") + 1, PROGRAM, entry, PROGRAM)
    return Recipe(command, {"LC_ALL": "C.UTF-8"}, (compiler, java), program)


def _script(argv: Sequence[str], entry: str) -> Program:
    return Program((*argv, ""), len(argv), entry, entry, "")


def _esbuild(request: Request, format_: str, out: str) -> Optional[Recipe]:
    tool, node = _which(request, "esbuild"), _which(request, "node")
    if tool is None or node is None:
        return None
    command = (
        tool, "--bundle", "--platform=node", "--packages=external", f"--format={format_}", "--log-level=warning",
        f"--outfile={MADE}/{out}", _word(request.filename),
    )  # fmt: skip
    return Recipe(command, {"NO_COLOR": "1"}, (tool, node), _script([node], out))


def _transpile(request: Request, node: str, where: str, format_: str, program: Program) -> Recipe:
    """By the module of tsc that is found at ``where``, or by node itself."""
    sources = _sources(request, ".ts", ".mts", ".cts")
    command = (node, "--no-warnings", "-e", _TRANSPILE, "--", where, format_, *sources)
    return Recipe(command, {}, (node, where) if where else (node,), program, may_be_too_old=not where)


def _tsc(request: Request, format_: str, out: str) -> Optional[Recipe]:
    tool, node = _which(request, "tsc"), _which(request, "node")
    if tool is None or node is None:
        return None
    where = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(tool))), "lib", "typescript.js")
    if not os.path.isfile(where):
        return None
    return _transpile(request, node, where, format_, _script([node], out))


def _bun(request: Request, _: str, out: str) -> Optional[Recipe]:
    tool = _which(request, "bun")
    if tool is None:
        return None
    command = (tool, "build", "--target=bun", "--packages=external", f"--outfile={MADE}/{out}", _word(request.filename))
    return Recipe(command, {"NO_COLOR": "1"}, (tool,), _script([tool], out))


def _deno(request: Request, _: str, __: str) -> Optional[Recipe]:
    """It is looked at now and compiled when it runs."""
    tool = _which(request, "deno")
    if tool is None:
        return None
    look = '"$0" cache --quiet --no-remote "$1" && cp -R . "$2"'
    command = ("/bin/sh", "-c", look, tool, _word(request.filename), MADE)
    run = [tool, "run", "-A", "--quiet", "--no-remote", "--no-check"]
    return Recipe(command, {"NO_COLOR": "1"}, (tool,), _script(run, request.filename))


def _node(request: Request, _: str, __: str) -> Optional[Recipe]:
    tool = _which(request, "node")
    return None if tool is None else _transpile(request, tool, "", "", _script([tool], request.filename))


def _typescript(request: Request) -> Optional[Recipe]:
    """Types are removed and not checked: few programs bring the types of what they import."""
    stem, suffix = os.path.splitext(request.filename)
    format_, out = ("esm", f"{stem}.mjs") if suffix == ".mts" else ("cjs", f"{stem}.js")
    for by in (_esbuild, _tsc, _bun, _deno, _node):
        recipe = by(request, format_, out)
        if recipe is not None:
            return recipe
    return None


_C = Compiled("c", "main.c", _c_like(("cc", "gcc", "clang"), "c", "gnu17", (".c",)),
              "C compiler (cc, gcc or clang)", "install gcc and libc6-dev, or clang")  # fmt: skip
_CXX = Compiled("c++", "main.cpp", _c_like(("c++", "g++", "clang++"), "c++", "gnu++17", (".cpp", ".cc", ".cxx")),
                "C++ compiler (c++, g++ or clang++)", "install g++, or clang")  # fmt: skip
_GO = Compiled("go", "main.go", _go, "Go tool chain (go)", "install golang-go, or Go from go.dev/dl")
_RUST = Compiled("rust", "main.rs", _rust, "Rust compiler (rustc)", "install rustc, or Rust by rustup")
_JAVA = Compiled("java", "Main.java", _java, "Java development kit (javac and java)",
                 "install default-jdk-headless, or another JDK", is_native=False)  # fmt: skip
_TS = Compiled("typescript", "main.ts", _typescript,
               "tool for TypeScript", "install node 22.18 or newer, bun or deno; or another node and esbuild "
               'or tsc, which packages=["npm:typescript"] gives a sandbox', is_native=False)  # fmt: skip

#: By all their names.
COMPILED: Dict[str, Compiled] = {
    "c": _C, "c++": _CXX, "cpp": _CXX, "cxx": _CXX, "go": _GO, "golang": _GO, "rust": _RUST, "rs": _RUST,
    "java": _JAVA, "typescript": _TS, "ts": _TS,
}  # fmt: skip


def filename_for(language: Compiled, text: str) -> str:
    """The name of the program's file if the caller gives none."""
    return java_names(text)[0] if language is _JAVA else language.filename
