# SPDX-License-Identifier: Apache-2.0
"""Ways to make git execute something, given a config or a directory of hooks that it obeys."""

import re
from typing import Any, Dict, List

from oracle import PAYLOAD
from world import World

Step = List[Any]

REMOTE = '[remote "origin"]\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\turl = '
HOOKS = (
    "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "reference-transaction",
    "post-index-change", "post-rewrite", "pre-auto-gc",
)  # fmt: skip
# P is the hostile program, D its directory.
CONFIGS: Dict[str, str] = {
    "fsmonitor": "[core]\n\tfsmonitor = P\n",
    "hooks-path": "[core]\n\thooksPath = D/hostile-hooks\n",
    "ssh-command": "[core]\n\tsshCommand = P\n" + REMOTE + "ssh://h/x\n",
    "editor": "[core]\n\teditor = P\n",
    "diff-external": "[diff]\n\texternal = P\n",
    "textconv": '[diff "x"]\n\ttextconv = P\n',
    "diff-command": '[diff "x"]\n\tcommand = P\n',
    "merge-driver": '[merge "x"]\n\tdriver = P %A\n',
    "alias": "[alias]\n\tst = !P\n",
    "sequence-editor": "[sequence]\n\teditor = P\n",
    "pager": "[core]\n\tpager = P\n",
    "pager-of-log": "[pager]\n\tlog = P\n",
    "git-proxy": "[core]\n\tgitProxy = P\n" + REMOTE + "git://h/x\n",
    "gpg-ssh": '[commit]\n\tgpgSign = true\n[gpg]\n\tformat = ssh\n[gpg "ssh"]\n\tprogram = P\n[user]\n\tsigningKey = /k\n',
    "include-if": '[includeIf "gitdir:/"]\n\tpath = D/hostile.inc\n',
    "url": '[protocol "ext"]\n\tallow = always\n[url "ext::P "]\n\tinsteadOf = x:\n' + REMOTE + "x:y\n",
    "filter": '[filter "x"]\n\tclean = P\n\tsmudge = P\n',
    "filter-process": '[filter "x"]\n\tprocess = P\n\trequired = true\n',
    "gpg": "[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = P\n",
    "ext-remote": '[protocol "ext"]\n\tallow = always\n' + REMOTE + "ext::P\n",
    "upload-pack": REMOTE + "D/../remote.git\n\tuploadpack = P\n",
    "include": "[include]\n\tpath = D/hostile.inc\n",
    "submodule-update": '[submodule "mod"]\n\tupdate = !P\n\tactive = true\n\turl = D\n',
    "recent-objects": "[gc]\n\trecentObjectsHook = P\n",
}
KINDS = [*CONFIGS, *(f"hook:{name}" for name in HOOKS)]
# These need more than the config or the hook alone, or a newer git.
RARE = {"recent-objects", "submodule-update", "hook:pre-auto-gc", "hook:post-rewrite", "gpg-ssh"}


def program(world: World) -> str:
    return f"{world.grant}/{PAYLOAD}"


def script(world: World) -> str:
    return f'#!/bin/sh\n"{program(world)}" "$@"\nexit 0\n'


def preparation(world: World) -> List[Step]:
    """What every payload may need: the program, a directory of hooks, a file to be included, attributes
    that name the drivers."""
    steps: List[Step] = [
        ["write", PAYLOAD, "#!/bin/sh\nexit 0\n", 0o755],
        ["write", "hostile.inc", text(world, "fsmonitor")],
        ["write", "src/.gitattributes", "* filter=x diff=x merge=x\n"],
        ["append", "src/a", "changed\n"],
    ]
    return steps + [["write", f"hostile-hooks/{name}", script(world), 0o755] for name in HOOKS]


def text(world: World, kind: str) -> str:
    """The config of this kind; of a hook, the one that names its directory."""
    got = CONFIGS.get(kind, CONFIGS["hooks-path"])
    return re.sub(r"\b[PD]\b", lambda m: program(world) if m.group() == "P" else str(world.grant), got)


def obey(world: World, kind: str, git_dir: str) -> List[Step]:
    """Steps after which a git that takes this directory for its repository obeys the payload."""
    if kind.startswith("hook:"):
        return [["write", f"{git_dir}/hooks/{kind[5:]}", script(world), 0o755]]
    return [["append", f"{git_dir}/config", text(world, kind)]]
