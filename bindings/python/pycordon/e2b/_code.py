# SPDX-License-Identifier: Apache-2.0
"""run_code(): what both fronts share. A context is an interpreter that is a command of the sandbox."""

from __future__ import annotations

import codecs
import json
import secrets
import shlex
import threading
import time
import weakref
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Tuple, TypeVar, Union

from .. import _arguments
from .._execution import Execution as _Execution
from .._interpreters import find_kind
from ._box import Box, check_seconds
from ._errors import InvalidArgumentException, NotFoundException, RateLimitException, TimeoutException, translated
from ._models import Context, Execution, OutputMessage, execution_from

I = TypeVar("I")  # noqa: E741
#: Seconds that code may take if nothing is said.
CODE_SECONDS = 300.0
#: Contexts of one sandbox.
CONTEXTS_MAX = 32
OUTPUT_MAX = 16 << 20

# Variables of one execution: set before it, and put back after it. All of this happens inside.
_BEFORE = {
    "python": "__import__('os').__dict__.setdefault('_cordon_envs', []).append([(k, __import__('os').environ.get(k)) "
    "for k in {names}]) or __import__('os').environ.update({pairs})",
    "javascript": "globalThis[Symbol.for('cordon.envs')] = Object.fromEntries({names}.map(k => [k, process.env[k]]));"
    "Object.assign(process.env, {pairs}); undefined",
}
_AFTER = {
    "python": "[__import__('os').environ.pop(k, None) if v is None else __import__('os').environ.__setitem__(k, v) "
    "for k, v in __import__('os')._cordon_envs.pop()] and None",
    "javascript": "for (const [k, v] of Object.entries(globalThis[Symbol.for('cordon.envs')])) "
    "{ if (v === undefined) delete process.env[k]; else process.env[k] = v; }; undefined",
}


def around(language: str, envs: Mapping[str, str]) -> Tuple[str, str]:
    """Code that sets variables, and code that undoes that."""
    if language == "bash":
        names = list(envs)
        if not all(name.isidentifier() and name.isascii() for name in names):
            raise InvalidArgumentException("envs: bash has no place for such a name")
        before = [f"_cordon_set_{n}=${{{n}+x}}; _cordon_old_{n}=${{{n}-}}; export {n}={shlex.quote(envs[n])}" for n in names]
        after = [
            f'if [ -n "$_cordon_set_{n}" ]; then export {n}="$_cordon_old_{n}"; else unset {n}; fi; '
            f"unset _cordon_set_{n} _cordon_old_{n}"
            for n in names
        ]
        return "\n".join(before), "\n".join(after)
    write = repr if language == "python" else json.dumps
    head, _, tail = _BEFORE[language].partition("{names}")
    middle, _, end = tail.partition("{pairs}")
    text = head + write(list(envs)) + middle + write(dict(envs)) + end
    return text, _AFTER[language]


class Kernel(Generic[I]):
    """A context with its interpreter. ``count`` is of the executions that the caller asked for."""

    def __init__(self, context: Context, interpreter: I, lock: Any) -> None:
        self.context = context
        self.interpreter = interpreter
        self.lock = lock
        self.count = 0


class Kernels(Generic[I]):
    """The contexts of one sandbox. ``make`` makes an interpreter for a language and a directory, ``lock`` what
    keeps executions apart."""

    def __init__(self, box: Box, make: Callable[[Box, str, str], I], lock: Callable[[], Any]) -> None:
        self._box: Box = weakref.proxy(box)  # which knows this; no cycle keeps its descriptors open
        self._make = make
        self._new_lock = lock
        self._lock = threading.Lock()
        self._all: Dict[str, Kernel[I]] = {}
        self._defaults: Dict[str, Kernel[I]] = {}

    def create(self, language: Optional[str], cwd: Optional[str]) -> Kernel[I]:
        """A new one."""
        self._box.check()
        with translated():
            name = find_kind(language or "python").name
        with self._lock:
            return self._create(name, cwd)

    def _create(self, name: str, cwd: Optional[str]) -> Kernel[I]:
        if len(self._all) >= CONTEXTS_MAX:
            raise RateLimitException(f"{CONTEXTS_MAX} contexts are there: remove_code_context() removes one")
        where = self._box.path(cwd) if cwd else self._box.home
        context = Context(secrets.token_hex(16), name, where)
        with translated():
            kernel = Kernel(context, self._make(self._box, name, where), self._new_lock())
        self._all[context.id] = kernel
        return kernel

    def find(self, context: Union[Context, str]) -> Kernel[I]:
        """One by its id."""
        self._box.check()
        known = self._all.get(context.id if isinstance(context, Context) else context)
        if known is None:
            raise NotFoundException("there is no such context in this sandbox")
        return known

    def chosen(self, language: Optional[str], context: Optional[Context]) -> Kernel[I]:
        """The one that code runs in: the context, or the default one of the language."""
        self._box.check()
        if language and context:
            raise InvalidArgumentException("give either context or language, not both")
        if context is not None:
            return self.find(context)
        with translated():
            name = find_kind(language or "python").name
        with self._lock:
            if name not in self._defaults:
                self._defaults[name] = self._create(name, None)
            return self._defaults[name]

    def remove(self, context: Union[Context, str]) -> Kernel[I]:
        """Forgets one, which is to be closed then."""
        kernel = self.find(context)
        with self._lock:
            self._all.pop(kernel.context.id, None)
            self._defaults = {name: one for name, one in self._defaults.items() if one is not kernel}
        return kernel

    def all(self) -> List[Kernel[I]]:
        """All that there are, even if the sandbox is gone."""
        with self._lock:
            return list(self._all.values())

    def contexts(self) -> List[Context]:
        """All of them."""
        self._box.check()
        return [kernel.context for kernel in self.all()]


def arguments(
    kernel: Kernel[Any], envs: Optional[Mapping[str, str]], timeout: Optional[float]
) -> Tuple[Tuple[str, str], Optional[float]]:
    """Code around the code, and its time."""
    with translated():
        variables = _arguments.variables("envs", envs)
    seconds = None if timeout == 0 else check_seconds(CODE_SECONDS if timeout is None else timeout)
    return (around(kernel.context.language, variables) if variables else ("", "")), seconds


def messages(callback: Optional[Callable[[Any], Any]], is_error: bool) -> Optional[Callable[[bytes], Any]]:
    """Bytes as they come become messages."""
    if callback is None:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    told = callback

    def call(data: bytes) -> Any:
        text = decoder.decode(data)
        return told(OutputMessage(text, time.time_ns(), is_error)) if text else None

    return call


def finished(box: Box, kernel: Kernel[Any], done: _Execution) -> Execution:
    """The account as E2B gives it; TimeoutException if the time was over, or the sandbox is."""
    kernel.count += 1
    if done.ended:
        box.check()
    if done.timed_out:
        raise TimeoutException("the time of the code is over: its 'timeout' option can be used to increase it")
    return execution_from(done, kernel.count)
