# SPDX-License-Identifier: Apache-2.0
"""Everyday programs and what a person types first to run them in a sandbox.

docs/programs.md lists the same lines; a test compares. In a line {port} is a free port; {index},
{registry} and {artifacts} are the hosts that pip, npm and Maven are configured for on this machine.
"""

from dataclasses import dataclass, field

NET = "--net-allow"


@dataclass
class Program:
    name: str
    lines: list  # typed one after the other
    commands: str  # which must be there, beside cordon
    says: str = ""  # on standard output of the last line
    makes: str = ""  # files that are there afterwards, and not empty
    adds: tuple = ()  # flags that the first try asks for, in one line of standard error
    files: dict = field(default_factory=dict)  # in the working directory, before
    before: str = ""  # a shell line without a sandbox, before
    asks: str = ""  # the last line is a server: a shell line outside that talks to it
    tools: str = ""  # py, npm: where tools/test-programs.sh puts it
    light: bool = False  # a part of `make test`
    root: bool = False  # as root, too


C = '#include <stdio.h>\nint main(void) { puts("fine"); return 0; }\n'
HTML = "<!DOCTYPE html><title>x</title><h1>fine</h1>\n"
TEX = "\\documentclass{article}\\begin{document}Fine: $x^2$\\end{document}\n"
JAVA = 'public class Fine { public static void main(String[] a) { System.out.println("fine"); } }\n'
NOTEBOOK = """{"cells": [{"cell_type": "code", "execution_count": null, "id": "a", "metadata": {},
"outputs": [], "source": ["print(6 * 7)"]}], "metadata": {"kernelspec": {"display_name": "Python 3",
"language": "python", "name": "python3"}}, "nbformat": 4, "nbformat_minor": 5}
"""
NGINX = """daemon off; pid nginx.pid; error_log stderr; events {}
http { access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t;
uwsgi_temp_path t; scgi_temp_path t; server { listen PORT; root .; } }
"""
SHOT = """const { chromium } = require('playwright-core');
(async () => {
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium' });
  const page = await browser.newPage();
  await page.goto('file://' + __dirname + '/page.html');
  await page.screenshot({ path: 'shot.png' });
  console.log(await page.textContent('h1'));
  await browser.close();
})();
"""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>x</groupId><artifactId>fine</artifactId><version>1</version><packaging>pom</packaging>
</project>
"""
GIT_VERBS = """git status --short
git add a
git commit -q -m one
git switch -q -c side
git commit -q --allow-empty -m two
git switch -q main
git merge -q --no-edit side
git rm -q a
git stash
git stash pop
git restore -S -W a
git tag v1
git diff HEAD~1
git log --oneline
git blame a
git rebase -q side
git cherry-pick --allow-empty side
git reset -q --hard v1
git branch -d side
git gc -q
git fsck
git show --stat HEAD
git mv a c
git commit -q -m three
git commit -q --amend -m again
git revert --no-edit HEAD
git format-patch -q -1 HEAD~1
git ls-files
git grep -n fine
git reflog
git shortlog -s HEAD
git describe --tags
git notes add -m note
git checkout -q -b topic
git checkout -q main
git branch -a -v
git worktree list
git remote -v
git config --list
git stash list
git bisect start
git bisect reset
git archive -o all.tar HEAD
git clean -n
git tag -d v1"""

# What changes the repository's config or its administrative directories: only a workspace lets them.
GIT_SETTINGS = """git config user.name y
git remote add up https://git.example/up.git
git remote rename up upstream
git branch -m side other
git checkout -q -b topic --track main
git push -q -u origin topic
git worktree add -q tree
git -c protocol.file.allow=always submodule -q add "file://$PWD/bare" sub
git stash -q -u
git stash pop -q"""

LIGHT = [
    Program("venv", ["cordon run -w . -- python3 -m venv v", "cordon run -- v/bin/python -c 'import sys; print(sys.prefix)'"],
            "python3", says="/v\n"),
    Program("make, gcc", ["cordon run -w . -- make"], "make gcc", says="fine\n", makes="x",
            files={"x.c": C, "Makefile": "all: x\n\t@./x\nx: x.c\n\tgcc -o x x.c\n"}),
    Program("git", ["cordon run -w . -- " + verb for verb in GIT_VERBS.split("\n")], "git",
            files={"a": "fine\n", "b": "loose\n"},
            before="git init -q -b main . && git config user.name x && git config user.email x@y"),
    Program("git, its settings", ["cordon run --workspace . -- sh -ec '" + GIT_SETTINGS.replace("\n", "; ") + "; git config user.name'"],
            "git", says="y\n", files={"a": "fine\n"},
            before="git init -q -b main . && git config user.name x && git config user.email x@y && git add a && "
                   "git commit -q -m one && git branch side && git clone -q --bare . bare && git remote add origin ./bare && "
                   "echo bare >> .git/info/exclude"),
    Program("git, with your name", ["cordon run -w . -r ~/.gitconfig -- git commit --allow-empty -m one",
                                    "cordon run -- git log --format=%an"], "git", says="Ann\n",
            before="git init -q . && git config --global user.name Ann && git config --global user.email ann@example.com"),
    Program("SQLite", ["cordon run -w . -- sqlite3 x.db 'create table t(a); insert into t values (6), (7); select sum(a) from t'"],
            "sqlite3", says="13\n", makes="x.db"),
    Program("Redis", ["cordon run --publish {port} -- redis-server --port {port}"], "redis-server redis-cli",
            asks="redis-cli -p {port} ping", says="PONG\n"),
    Program("nginx", ["cordon run -w . --publish {port} -- nginx -p . -c nginx.conf"], "nginx curl",
            files={"nginx.conf": NGINX, "page.html": HTML}, asks="curl -sSf http://127.0.0.1:{port}/page.html", says="fine"),
    Program("ImageMagick", ["cordon run -w . -- convert -size 20x20 xc:red a.png", "cordon run -w . -- convert a.png -resize 10x10 b.jpg",
                            "cordon run -w . -- identify b.jpg"], "convert identify", says="JPEG 10x10", makes="a.png b.jpg"),
    Program("tmux", ["cordon run -- tmux new-session -d 'sleep 9' ';' list-sessions"], "tmux", says="1 windows"),
    Program("vim", ["cordon run -w . -- vim -es -c '%s/bad/fine/' -c wq a.txt", "cordon run -- cat a.txt"], "vim",
            files={"a.txt": "bad\n"}, says="fine\n"),
    Program("gdb", ["cordon run -w . -- gcc -g -o x x.c", "cordon run -- gdb -batch -ex 'break main' -ex run -ex bt ./x"], "gdb gcc",
            files={"x.c": C}, says="#0  main"),
    Program("Perl", ["cordon run -- perl -MPOSIX -e 'print strftime(\"%Y\", gmtime 0)'"], "perl", says="1970"),
    Program("Ruby", ["cordon run -- ruby -rjson -e 'puts JSON.generate([1])'"], "ruby", says="[1]\n"),
    Program("PHP", ["cordon run -- php -r 'echo json_encode([1]), extension_loaded(\"posix\") ? \" fine\" : \" no settings\";'"],
            "php", says="[1] fine"),
    Program("man", ["cordon run -- man ./fine.1"], "man", files={"fine.1": ".TH FINE 1\n.SH NAME\nfine \\- a page\n"}, says="a page"),
    Program("Node.js", ["cordon run -- node -e 'console.log(require(\"os\").EOL.length)'"], "node", says="1\n"),
    Program("jq", ["echo '{{\"a\": [6, 7]}}' | cordon run -- jq '.a | add'"], "jq", says="13\n"),
    Program("rsync", ["cordon run -w . -- rsync -a a/ b/"], "rsync", before="mkdir a && echo fine > a/x", makes="b/x"),
    Program("tar", ["cordon run -w . -- tar -czf a.tgz a", "cordon run -w . -- tar -tzf a.tgz"], "tar gzip",
            before="mkdir a && echo fine > a/x", says="a/x\n"),
    Program("zip", ["cordon run -w . -- zip -qr a.zip a", "cordon run -w . -- unzip -p a.zip"], "zip unzip",
            before="mkdir a && echo fine > a/x", says="fine\n"),
    Program("GnuPG", ["cordon run -w . -- gpg --batch --yes --passphrase x -o a.gpg -c a.txt",
                      "cordon run -- gpg --batch -q --passphrase x -d a.gpg"], "gpg", files={"a.txt": "fine\n"}, says="fine\n"),
    Program("ssh-keygen", ["cordon run -w . -- ssh-keygen -q -t ed25519 -N '' -f key"], "ssh-keygen", makes="key key.pub"),
    Program("Graphviz", ["echo 'digraph {{ a -> b }}' | cordon run -w . -- dot -Tpng -o a.png"], "dot", makes="a.png"),
    Program("curl", ["cordon run -- sh -c 'python3 -m http.server 8000 2>/dev/null & curl -sS --retry 99 --retry-delay 1 --retry-connrefused "
                     "http://localhost:8000/page.html 2>/dev/null'"], "curl python3", files={"page.html": HTML}, says="fine"),
]  # fmt: skip

REST = [
    Program("pip", ["cordon run -w . -- python3 -m venv v", "cordon run -w . --net-allow {index} -- v/bin/pip install six",
                    "cordon run -- v/bin/python -c 'import six; print(six.__name__)'"], "python3", says="six\n", adds=(NET,)),
    Program("uv", tools="py", lines=["cordon run -w . -- uv venv v", "cordon run -w . --net-allow {index} -- uv pip install -p v six",
                   "cordon run -- v/bin/python -c 'import six; print(six.__name__)'"], commands="uv python3", says="six\n", adds=(NET,)),
    Program("npm", ["cordon run -w . -- npm init -y", "cordon run -w . --net-allow {registry} -- npm install is-odd",
                    "cordon run -- node -e 'console.log(require(\"is-odd\")(7))'"], "npm node", says="true\n"),
    Program("npx", ["cordon run --net-allow {registry} -- npx --yes semver 1.2.3"], "npx", says="1.2.3\n"),
    Program("pytest-xdist", tools="py", lines=["cordon run -w . -- pytest -q -n 2"], commands="pytest", says="2 passed",
            files={"test_x.py": "def test_a(): pass\ndef test_b(): pass\n"}),
    Program("Cargo", ["cordon run -w . -- cargo init -q --name fine --vcs none", "cordon run -w . -- cargo run -q"], "cargo",
            says="Hello, world!\n"),
    Program("Go", ["cordon run -w . -- go mod init fine", "cordon run -w . -- go run ."], "go", says="fine\n",
            files={"main.go": 'package main\nimport "fmt"\nfunc main() { fmt.Println("fine") }\n'}),
    Program("Maven", ["cordon run -w . --net-allow {artifacts} -- mvn -q -B install"], "mvn java", files={"pom.xml": POM}),
    Program("Java", ["cordon run -w . -m 512M -- javac Fine.java", "cordon run -m 512M -- java Fine"], "java javac",
            files={"Fine.java": JAVA}, says="fine\n", root=True),
    Program("Jupyter", tools="py", lines=["cordon run -w . -- jupyter nbconvert --execute --to markdown --stdout n.ipynb"], commands="jupyter",
            files={"n.ipynb": NOTEBOOK}, says="42"),
    Program("PostgreSQL", ["cordon run -w . -- initdb -D data", "cordon run -w . -- sh -c 'pg_ctl -D data -w -l log start && "
                           "psql -Atc \"select 6 * 7\" postgres; pg_ctl -D data stop >/dev/null'"], "initdb pg_ctl psql",
            says="42\n", root=True),
    Program("Chromium", ["cordon run -w . -- chromium --headless --screenshot=a.png page.html"], "chromium",
            files={"page.html": HTML}, makes="a.png", adds=("--no-sandbox",), root=True),
    Program("Playwright", ["cordon run -w . -- node shot.js"], "node chromium", files={"shot.js": SHOT, "page.html": HTML},
            before="mkdir node_modules && cp -r {node_modules}/playwright-core node_modules/", says="fine\n", makes="shot.png"),
    Program("LibreOffice", ["cordon run -w . -- soffice --headless --convert-to pdf a.txt"], "soffice", files={"a.txt": "fine\n"},
            makes="a.pdf", root=True),
    Program("LaTeX", ["cordon run -w . -- pdflatex -interaction=batchmode a.tex"], "pdflatex", files={"a.tex": TEX},
            makes="a.pdf", root=True),
    Program("R", ["cordon run -w . -- Rscript -e 'png(\"a.png\"); plot(1:3); cat(median(c(1, 6, 7)))'"], "Rscript", says="6",
            makes="a.png", root=True),
    Program("FFmpeg", ["cordon run -w . -- ffmpeg -loglevel error -f lavfi -i testsrc=d=1 a.mp4",
                       "cordon run -- ffprobe -loglevel error -show_entries stream=codec_type a.mp4"], "ffmpeg ffprobe",
            makes="a.mp4", says="codec_type=video"),
    Program("Pandoc", ["cordon run -w . -- pandoc -o a.docx a.md", "cordon run -- pandoc -t plain a.docx"], "pandoc",
            files={"a.md": "*fine*\n"}, says="fine\n"),
    Program("CMake", ["cordon run -w . -- cmake -S . -B build", "cordon run -w . -- cmake --build build", "cordon run -- build/x"],
            "cmake gcc", files={"x.c": C, "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(x C)\nadd_executable(x x.c)\n"},
            says="fine\n"),
    Program("Deno", tools="npm", lines=["cordon run -- deno run a.ts"], commands="deno", files={"a.ts": "const x: number = 42; console.log(x);\n"}, says="42\n"),
    Program("Bun", tools="npm", lines=["cordon run -- bun run a.ts"], commands="bun", files={"a.ts": "const x: number = 42; console.log(x);\n"}, says="42\n"),
    Program("Claude Code", tools="npm", lines=["cordon run --preset agent -- claude --version"], commands="claude", says="Claude Code"),
    Program("Codex", tools="npm", lines=["cordon run --preset agent -- codex --version"], commands="codex", says="codex"),
    Program("opencode", tools="npm", lines=["cordon run --preset agent -- opencode --version"], commands="opencode", says="."),
]  # fmt: skip

for _program in LIGHT:
    _program.light = _program.root = True
PROGRAMS = LIGHT + REST
