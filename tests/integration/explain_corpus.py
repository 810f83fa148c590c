# SPDX-License-Identifier: Apache-2.0
"""What commands are refused inside, and commands that fail for reasons of their own (test_explain.py).

Each case has directories of its own: {cwd}, the current one; {out}, never granted, with a file `data`, a
script, a socket `sock` that listens; {tools}, in the caller's PATH and not shown; {home}; {base}, where all of
them lie. {port} is one that listens on 127.0.0.1 of the host, {pid} a process of the caller's there.
"""

from collections import namedtuple

#: kind: of the action. script: for sh. rule, target: of the denial that tells it; "" = any target. fix: what
#: has to be offered: YES, NO (none may be), MAY (none is known that would do, or one may be). opts: of the run.
#: level, who: where it is refused, None = everywhere. needs: programs. works: how a fix is judged: "ends" = the
#: command succeeds with it, "gone" = that denial is not told any more.
Denied = namedtuple("Denied", "name kind script rule target fix opts level who needs works")
YES, NO, MAY = "yes", "no", "may"
DENIED = []


def denied(kind, name, script, rule, target="", fix=YES, opts=(), level=None, who=None, needs=(), works="ends"):
    DENIED.append(Denied(f"{kind}: {name}", kind, script, rule, target, fix, opts, level, who, tuple(needs), works))


def read(name, script, target="{out}/data", **kw):
    denied("read", name, script, "fs.read", target, **kw)


read("cat", "cat {out}/data")
read("awk", "awk '{{print}}' {out}/data")
read("cut", "cut -c1 {out}/data")
read("tail", "tail -n 1 {out}/data")
read("md5sum", "md5sum {out}/data")
read("od", "od {out}/data")
read("nl", "nl {out}/data")
read("tac", "tac {out}/data")
read("stat", "stat {out}/data", level="namespaces")
read("find", "find {out} -name data", "{out}")
read("du", "du {out}", "{out}", level="namespaces")
read("ls -l", "ls -l {out}/", "{out}")
read("cmp", "cmp {out}/data file")
read("comm", "comm {out}/data file")
read("cp -r", "cp -r {out} $HOME/x", "{out}", level="namespaces")
read("tar x", "tar -xOf {out}/data.tar", "{out}/data.tar")
read("unzip by python", "python3 -m zipfile -l {out}/data.zip", "{out}/data.zip")
read("python json", "python3 -c 'import json; json.load(open(\"{out}/data.json\"))'", "{out}/data.json")
read("python script", "python3 {out}/x.py", "{out}/x.py")
read("python chdir", "python3 -c 'import os; os.chdir(\"{out}\")'", "{out}", level="namespaces")
read("python scandir", "python3 -c 'import os; list(os.scandir(\"{out}\"))'", "{out}")
read("perl", "perl -e 'open(my $f, \"<\", $ARGV[0]) or die \"cannot open $ARGV[0]: $!\"' {out}/data", needs=["perl"])
read("node", "node -e 'require(\"fs\").readFileSync(\"{out}/data\")'", needs=["node"])
read("node script", "node {out}/x.js", "{out}/x.js", needs=["node"])
read("bash script", "bash {out}/script", "{out}/script")
read("exec", "exec {out}/script", "{out}/script")
read("a pipe", "cat {out}/data | sort; cat {out}/data")
read("make -C", "make -C {out} -n", "{out}", needs=["make"], level="namespaces")
read("gcc", "gcc -fsyntax-only {out}/x.c", "{out}/x.c", needs=["gcc"])
read("gcc include", "gcc -fsyntax-only -include {out}/x.h -x c /dev/null", "{out}/x.h", needs=["gcc"])
read("git clone", "git clone -q {out}/repo $HOME/repo", "{out}/repo", needs=["git"])
read("openssl", "openssl x509 -noout -in {out}/cert.crt", "{out}/cert.crt", needs=["openssl"])
read("a relative path", "cat ../outside/data")
read("a name with blanks", "cat '{out}/my data'", "{out}/my data")
read("sqlite3", "sqlite3 {out}/data.db .tables", "{out}/data.db", needs=["sqlite3"])
read("keys", "cat $HOME_OUTSIDE/.ssh/id_ed25519", ".ssh/id_ed25519", fix=NO)
read("cloud keys", "python3 -c 'open(\"{home}/.aws/credentials\")'", ".aws/credentials", fix=NO)
read("another home", "ls /home/someone", "/home/someone", fix=NO, level="namespaces")
denied("read", "denied by name", "cat {out}/data", "fs.deny", "{out}/data", NO,
       ["-r", "{out}", "--deny", "{out}/data"], level="namespaces")  # fmt: skip


def write(name, script, target=".", **kw):
    denied("write", name, script, "fs.write", target, **kw)


write("touch", "touch new")
write("mkdir", "mkdir -p a/b")
write("tee", "echo x | tee new")
write("append", "echo x >> file", "")
write("cp", "cp file copy")
write("mv", "mv file other", "")
write("rm -r", "rm -r sub", "", works="gone")
write("ln", "ln file hard", "")
write("dd", "dd if=/dev/zero of=new count=1")
write("sort -o", "sort -o new file")
write("split", "split -b 1 file")
write("tar c", "tar -cf new.tar file")
write("gzip", "gzip -k file")
write("patch by sed", "sed -i s/a/b/ file")
write("python", "python3 -c 'open(\"new\", \"w\")'")
write("python mkdir", "python3 -c 'import os; os.mkdir(\"new\")'")
write("python unlink", "python3 -c 'import os; os.unlink(\"file\")'", "file")
write("python in full", "python3 -c 'open(\"{cwd}/new\", \"w\")'")
write("node", "node -e 'require(\"fs\").writeFileSync(\"new\", \"x\")'", needs=["node"])
write("perl", "perl -e 'open(my $f, \">\", \"new\") or die \"cannot write new: $!\"'", needs=["perl"])
write("git init", "git init -q repo", "", needs=["git"])
write("gcc -o", "gcc -o new sub/main.c", needs=["gcc"])
write("make", "make -s new", needs=["make"])
write("sqlite3", "sqlite3 new.db 'create table t (a)'", needs=["sqlite3"])
write("a subdirectory", "touch sub/new", "sub")
write("elsewhere", "touch {out}/new", "{out}")
write("elsewhere by cp", "cp file {out}/new", "{out}")
write("elsewhere by python", "python3 -c 'open(\"{out}/new\", \"w\")'", "{out}")


def protect(name, script, target, **kw):
    denied("protected", name, script, "fs.protect", target, opts=["-w", "."], level="namespaces", **kw)


protect("git config", "git config a.b c", ".git/config", needs=["git"])
protect("a hook", "echo x > .git/hooks/pre-commit", ".git/hooks")
protect("envrc", "echo x > .envrc", ".envrc")
protect("vscode", "mkdir .vscode", ".vscode")
protect("mcp", "python3 -c 'open(\".mcp.json\", \"w\")'", ".mcp.json")
protect("replaced", "echo x > n; mv n .git/config", ".git/config")


def net(name, script, target="", **kw):
    kw = {"works": "gone", **kw}
    denied("network", name, script, "net.allow", target, **kw)


net("curl", "curl -sS http://example.com/", "example.com", needs=["curl"], level="namespaces")
net("python", "python3 -c 'import urllib.request as u; u.urlopen(\"http://example.com/\")'", "example.com", level="namespaces")
net("getent", "getent hosts example.com", "example.com", level="namespaces")
net("git", "git clone https://example.com/x $HOME/x", "example.com", needs=["git"], level="namespaces")
net("pip", "python3 -m pip download --retries 0 --disable-pip-version-check x", "", fix=MAY, level="namespaces", needs=["pip3"])
net("node", "node -e 'fetch(\"http://example.com\").catch(e => {{ throw e }})'", "example.com", needs=["node"], level="namespaces")
net("ssh", "ssh -o BatchMode=yes -o StrictHostKeyChecking=no example.com true", "example.com", needs=["ssh"], level="namespaces")
net("an address", "curl -sS -m 5 http://192.0.2.1/", "", fix=MAY, needs=["curl"], level="namespaces")
net("a port of bash", "bash -c 'echo > /dev/tcp/192.0.2.1/80'", "", fix=MAY, level="namespaces")
net("datagrams", "python3 -c 'import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b\"x\", (\"192.0.2.1\", 99))'",
    "", fix=MAY, level="namespaces")  # fmt: skip
net("this machine", "curl -sS -m 5 http://127.0.0.1:{port}/", ":{port}", needs=["curl"])
net("this machine by node", "node -e 'fetch(\"http://localhost:{port}/\").catch(e => {{ throw e }})'", ":{port}", needs=["node"])
net("this machine by python", "python3 -c 'import urllib.request as u; u.urlopen(\"http://localhost:{port}/\")'", ":{port}")
net("another host", "curl -sS -m 5 http://other.example/", "other.example", opts=["--net-allow", "example.com"],
    needs=["curl"], level="namespaces")  # fmt: skip
net("another port", "curl -sS -m 5 http://192.0.2.1:8080/", "192.0.2.1:8080", opts=["--net-allow", "192.0.2.1"], fix=MAY,
    needs=["curl"], level="namespaces")  # fmt: skip
net("curl, no namespaces", "curl -sS -m 5 http://192.0.2.1/", "", fix=MAY, needs=["curl"], level="landlock")
net("python, no namespaces", "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 5)'", "", fix=MAY,
    level="landlock")  # fmt: skip
net("names, no namespaces", "curl -sS http://example.com/", "", fix=MAY, needs=["curl"], level="landlock")


def socket(name, script, target="", **kw):
    denied("socket", name, script, "fs.read", target, NO, **kw)


socket("curl", "curl -sS --unix-socket {out}/sock http://x/", "{out}/sock", needs=["curl"])
socket("python", "python3 -c 'import socket as s; s.socket(s.AF_UNIX).connect(\"{out}/sock\")'", "{out}/sock")
socket("docker", "DOCKER_HOST=unix://{out}/sock docker ps", "{out}/sock", needs=["docker"])
socket("the ssh agent", "ssh-add -l", "{out}/sock", needs=["ssh-add"])
socket("the ssh agent in full", "SSH_AUTH_SOCK={out}/sock ssh-add -l", "{out}/sock", needs=["ssh-add"])
socket("D-Bus", "DBUS_SESSION_BUS_ADDRESS=unix:path={out}/sock dbus-send --session --dest=a.b /a a.b.c", "{out}/sock",
       needs=["dbus-send"])  # fmt: skip
socket("git over a socket", "node -e 'require(\"net\").connect(\"{out}/sock\")'", "{out}/sock", needs=["node"])


def device(name, script, target, **kw):
    denied("device", name, script, "fs.read", target, NO, **kw)


device("kvm", "python3 -c 'open(\"/dev/kvm\", \"rb\")'", "/dev/kvm", who="root")
device("fuse", "cat /dev/fuse", "/dev/fuse")
device("memory", "dd if=/dev/mem count=1", "/dev/mem", who="root", level="namespaces")
device("the kernel's log", "head -c 1 /dev/kmsg", "/dev/kmsg", who="root")
device("a console", "python3 -c 'open(\"/dev/tty1\")'", "/dev/tty1", who="root")
device("loop", "node -e 'require(\"fs\").openSync(\"/dev/loop-control\")'", "/dev/loop-control", needs=["node"], who="root")


def rights(name, script, target="", **kw):
    denied("rights", name, script, "isolation", target, NO, **kw)


rights("raw sockets", "python3 -c 'import socket as s; s.socket(s.AF_INET, s.SOCK_RAW, 1)'", "protocol")
rights("packets", "python3 -c 'import socket as s; s.socket(s.AF_PACKET, s.SOCK_RAW)'", "family", who="root")
rights("datagrams", "python3 -c 'import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM)'", "protocol", level="landlock")
rights("SCTP", "node -e 0; python3 -c 'import socket as s; s.socket(s.AF_INET, s.SOCK_SEQPACKET, 132)'", "protocol")
rights("mount", "mount -t tmpfs none /mnt", "mount", who="root")
rights("unshare", "unshare -r true", "unshare")
rights("unshare net", "unshare -rn true", "unshare")
rights("unshare pid", "unshare --user --pid --fork true", "unshare")
rights("chroot", "chroot / /bin/true", "chroot", who="root", needs=["chroot"])
rights("hostname", "hostname other", "hostname", who="root", needs=["hostname"])
rights("date", "date -s 2030-01-01", "date", who="root")
rights("dmesg", "dmesg", "dmesg", who="root")
rights("chown", "touch $HOME/x && chown 12:12 $HOME/x", "chown", who="root")
rights("mknod", "mknod $HOME/x c 1 3", "mknod", who="root")
rights("su", "su -c true nobody", "su", who="root")
rights("setpriv", "setpriv --reuid 12 --clear-groups true", "setpriv", who="root")
rights("nsenter", "nsenter -t $$ -m true", "nsenter", who="root")
rights("ip", "ip link add d0 type dummy", "ip", who="root", needs=["ip"])
rights("renice", "renice -n -5 $$", "renice", who="root")
rights("nice", "nice -n -5 false", "nice", who="root")
rights("strace", "strace -o /dev/null true", "ptrace", needs=["strace"], level="landlock")
rights("python setuid", "python3 -c 'import os; os.setuid(12)'", "setuid", who="root")
rights("python chroot", "python3 -c 'import os; os.chroot(\"/\")'", "chroot", who="root")
rights("python unshare", "python3 -c 'import ctypes, os; c = ctypes.CDLL(None, use_errno=True); r = c.unshare(0x10000000); "
       "e = ctypes.get_errno(); raise OSError(e, os.strerror(e)) if r else SystemExit(0)'", "unshare")  # fmt: skip
rights("python sethostname", "python3 -c 'import socket; socket.sethostname(\"x\")'", "sethostname", who="root")
rights("sysctl", "sysctl -w kernel.hostname=x", "sysctl", who="root", needs=["sysctl"])
rights("another process", "kill -URG {pid}", "signals", level="landlock")


def limit(name, script, key, opts, **kw):
    denied("limit", name, script, f"limits.{key}", "", opts=opts, **kw)


limit("memory", "python3 -c 'import time; x = b\"x\" * 90_000_000; time.sleep(0.5)'", "memory", ["-m", "64M"])
limit("memory of a child", "sh -c 'python3 -c \"import time; x = 90_000_000 * chr(120); time.sleep(0.5)\"'; exit 1", "memory", ["-m", "64M"], works="gone")
limit("tasks", "for i in 1 2 3 4 5 6; do sleep 0.2 & done; wait $! && exit 0", "procs", ["-P", "4"], works="none")
limit("tasks of python", "python3 -c 'import threading as t, time; v = [t.Thread(target=time.sleep, args=(0.2,)) for _ in "
      "range(5)]; [x.start() for x in v]'", "procs", ["-P", "4"], level="namespaces")  # fmt: skip
# The kernel counts all tasks of the user there, other cases' among them.
limit("tasks of a shell", "python3 -c 'import threading as t, time; v = [t.Thread(target=time.sleep, args=(0.2,)) for _ in "
      "range(5)]; [x.start() for x in v]'", "procs", ["-P", "4"], level="landlock", works="none")  # fmt: skip
limit("open files", "python3 -c 'f = [open(\"/dev/null\") for _ in range(40)]'", "open_files", ["--open-files", "32"])
limit("open files of a child", "sh -c 'python3 -c \"import os; f = [os.dup(0) for _ in range(40)]\"; exit 3'", "open_files",
      ["--open-files", "32"], works="gone")  # fmt: skip
limit("open files of perl", "perl -e 'for (1..40) {{ open(my $f, \"<\", \"/dev/null\") or die \"$!\"; push @f, $f }}'", "open_files",
      ["--open-files", "32"], needs=["perl"])  # fmt: skip
limit("open files of node", "node -e 'for (let i = 0; i < 80; i++) require(\"fs\").openSync(\"/dev/null\")'", "open_files",
      ["--open-files", "64"], needs=["node"])  # fmt: skip
limit("a file", "head -c 1500000 /dev/zero > $HOME/x", "file_size", ["--file-size", "1M"])
limit("a file of dd", "dd if=/dev/zero of=$HOME/x bs=1500000 count=1", "file_size", ["--file-size", "1M"])
limit("a file of python", "python3 -c 'import os; f = open(os.environ[\"HOME\"] + \"/x\", \"wb\"); f.write(bytes(1500000)); f.close()'",
      "file_size", ["--file-size", "1M"])  # fmt: skip
limit("a file of a child", "sh -c 'head -c 1500000 /dev/zero > $HOME/x'; exit $?", "file_size", ["--file-size", "1M"])
limit("disk", "head -c 1500000 /dev/zero > $HOME/x", "disk", ["--disk", "1M"], level="namespaces")
limit("disk of python", "python3 -c 'open(\"/tmp/x\", \"wb\").write(bytes(1500000))'", "disk", ["--disk", "1M"], level="namespaces")
limit("time", "sleep 3", "wall", ["-t", "300ms"], fix=MAY)
limit("CPU time", "python3 -c 'while True: pass'", "cpu_time", ["--cpu-time", "200ms"], fix=YES, works="none")
limit("output", "head -c 100000 /dev/zero", "output", ["--max-output", "10K", "--end-on-output"], fix=MAY)


def program(name, script, target="{tools}/my-tool", **kw):
    denied("program", name, script, "fs.read", target, **kw)


program("sh", "my-tool")
program("bash", "bash -c my-tool")
program("env", "env my-tool")
program("xargs", "echo | xargs my-tool")
program("python", "python3 -c 'import subprocess; subprocess.run([\"my-tool\"], check=True)'")
program("make", "printf 'all:\\n\\tmy-tool\\n' | make -f -", needs=["make"])
program("node", "node -e 'require(\"child_process\").execFileSync(\"my-tool\")'", needs=["node"])
program("perl", "perl -e 'system(\"my-tool\") == 0 or die \"my-tool: $!\"'", needs=["perl"])
program("a link", "my-link", "{tools}/my-link")
denied("program", "not on the list", "ls", "commands", "ls", opts=["--commands", "sh,cat"])
denied("program", "not on the list, by bash", "bash -c ls; exit 1", "commands", "ls", opts=["--commands", "sh,bash"], works="gone")

denied("lost", "home", "echo x > $HOME/result", "lost", "result", MAY, level="namespaces")
denied("lost", "/tmp", "echo x > /tmp/result", "lost", "result", MAY, level="namespaces")

#: Commands that fail as they would outside: name -> script, or script and options. Nothing is to be told.
OWN = {
    "a file that is nowhere": "cat {out}/nothing",
    "a file that is nowhere here": "cat nothing",
    "a program that is nowhere": "no-such-tool",
    "a program that is nowhere, bash": "bash -c no-such-tool",
    "a program that is nowhere, python": "python3 -c 'import subprocess; subprocess.run([\"no-such-tool\"])'",
    "a word like a program": "echo 'my-too: not found' >&2; exit 127",
    "a module": "python3 -c 'import my_tool'",
    "exit": "exit 7",
    "syntax": "if",
    "a test that fails": "python3 -c 'assert 1 == 2'",
    "a key": "python3 -c '{{}}[\"mount\"]'",
    "a signal": "kill -TERM $$",
    "an abort": "python3 -c 'import os; os.abort()'",
    "a division": "python3 -c '1 / 0'",
    "make": "make nothing",
    "a compiler": "echo 'int x' | gcc -fsyntax-only -x c -",
    "a header": "echo '#include <nothing.h>' | gcc -fsyntax-only -x c -",
    "git log": "cd $HOME && git log",
    "an option": "ls --no-such-option",
    "mount, an option": "mount --no-such-option",
    "mount as help": "mount --help; exit 1",
    "unshare, an option": "unshare --no-such-option",
    "su, an option": "su --no-such-option",
    "closed by a mode": "echo x > $HOME/x; chmod 0 $HOME/x; cat $HOME/x; exit 1",
    "not executable": "echo x > $HOME/x; $HOME/x",
    "a directory is no file": "cat sub",
    "a directory that is there": "mkdir $HOME/a && mkdir $HOME/a",
    "a directory with something in it": "mkdir -p $HOME/a/b && rmdir $HOME/a",
    "a loop of links": "ln -s l $HOME/l; cat $HOME/l",
    "a port of its own": "curl -sS http://127.0.0.1:1/",
    "an address in a word": "echo 'connection to 192.0.2.1 failed' >&2; exit 1",
    "a host in a word": "echo 'example.com: invalid' >&2; exit 1",
    "a bad URL": "curl -sS htp://x",
    "a socket that is nowhere": "curl -sS --unix-socket $HOME/nothing http://x/",
    "a display that is nowhere": "DISPLAY=:77 xdpyinfo",
    "a page that is nowhere": "curl -sS --fail file://$HOME/nothing",
    "a module of node": "node -e 'require(\"no-such-module\")'",
    "a bad id": "chown no-such-user $HOME; exit 1",
    "an agent that is nowhere": "env -u SSH_AUTH_SOCK ssh-keygen -Y sign -f $HOME/nothing -n x $HOME/nothing",
    "its own memory": "python3 -c 'raise MemoryError'",
    "its own task limit": "python3 -c 'raise BlockingIOError(11, \"busy\")'",
    "its own limit of a file": "ulimit -f 1; head -c 10000 /dev/zero > $HOME/x; exit 1",
    "a full device": "echo x > /dev/full",
    "a closed pipe": "python3 -c 'import os; r, w = os.pipe(); os.close(r); os.write(w, b\"x\")'",
    "a process that is nowhere": "kill -URG 3999999",
    "words about rights": "echo 'you must be root to see this page' >&2; exit 1",
    "words about a device": "echo 'no device' >&2; exit 1",
    "an error of an interpreter": "perl -e 'die \"mount of the day\"'",
    "a user's own words": "echo 'permission denied: wrong password' >&2; exit 1",
    "a server's answer": "echo 'HTTP 403: Permission denied' >&2; exit 1",
    "grep": "grep nothing file",
    "diff": "diff file sub/main.c",
}  # fmt: skip
