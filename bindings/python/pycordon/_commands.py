# SPDX-License-Identifier: Apache-2.0
"""Checks whether a command line names allowed programs only, for a readable refusal.

The kernel enforces the policy's list of commands in any case. This checks the words that a shell
would take for programs, so that an agent hears of a refusal before anything starts. It lets pass
what it cannot read.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from typing import Iterator, List, Optional, Sequence, Set, Union

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_OPERATORS = frozenset((";", ";;", "|", "||", "&&", "&", "|&", "(", ")", "\n"))
_REDIRECTIONS = re.compile(r"^[<>]+[&|]?$|^&>>?$")
_KEYWORDS = frozenset(
    ("if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "exec", "command")
)
_ENDS = frozenset(("fi", "done", "}", "esac"))
_TOO_MUCH = frozenset(("case", "function", "select", "coproc", "for"))
#: What may read a command string without being allowed itself.
SHELLS = frozenset(f"{place}/{name}" for place in ("/bin", "/usr/bin") for name in ("sh", "bash"))
_BUILTINS = frozenset(
    ". : [ [[ alias bg break builtin cd continue declare dirs disown echo enable eval exit export"
    " false fg getopts hash help history jobs kill let local mapfile popd printf pushd pwd read"
    " readarray readonly return set shift shopt source test times trap true type typeset ulimit"
    " umask unalias unset wait".split()
)


def words(command: str) -> Iterator[str]:
    """The words of a shell command that stand where programs do."""
    if "<<" in command or "()" in command or "\\\n" in command:
        return
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.commenters = "#"
    try:
        tokens = list(lexer)
    except ValueError:
        return
    if _TOO_MUCH.intersection(tokens):
        return
    at_program, skip, before = True, False, ""
    substitutions: List[bool] = []  # for each "(" that is open: whether it is one of "$("
    for token in tokens:
        before, previous = token, before
        if token == "(":
            substitutions.append(previous.endswith("$"))
        if skip:
            skip = False
        elif token == ")" and substitutions and substitutions.pop():
            at_program = False  # what follows are arguments
        elif token in _OPERATORS:
            at_program = True
        elif _REDIRECTIONS.match(token):
            skip = True
        elif at_program and not _ASSIGNMENT.match(token):
            if token in _KEYWORDS:
                continue
            at_program = False
            if token not in _ENDS:
                yield token


def _names(program: str, search_path: Optional[str]) -> Set[str]:
    """The ways to say the same program: its name, where it lies, where links lead."""
    found = shutil.which(program, path=search_path)
    names = {program}
    if found:
        names |= {found, os.path.realpath(found)}
    return names


def is_allowed(program: str, allowed: Sequence[str], search_path: Optional[str]) -> bool:
    """Whether a program is one of those allowed, under whatever name."""
    if program in allowed:
        return True
    mine = _names(program, search_path)
    return any(mine & _names(other, search_path) for other in allowed)


def refused(
    command: Union[str, Sequence[str]], allowed: Sequence[str], search_path: Optional[str]
) -> Optional[str]:
    """The first program of a command that is not allowed, or None."""
    todo: List[str] = list(words(command)) if isinstance(command, str) else [command[0]]
    for word in todo:
        if isinstance(command, str) and (word in _BUILTINS or "$" in word or "`" in word):
            continue
        if not is_allowed(word, allowed, search_path):
            return word
    return None
