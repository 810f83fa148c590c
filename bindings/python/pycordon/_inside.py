# SPDX-License-Identifier: Apache-2.0
# It changes what belongs to other modules, which has no types.
# mypy: ignore-errors
"""What a frozen interpreter does before it is frozen and when it goes on (src/warm/python.c).

This file is no module: its text is run inside, in a namespace of its own. It must leave no trace that
a program could meet, so nothing here is put into sys.modules or __main__.
"""

import gc
import os
import stat
import sys

#: Variables by which an interpreter, the C library or a loaded module sets itself up when it starts.
#: If one of them is another one, the program must start cold.
_AT_START = (
    "PYTHON", "LC_", "LANG", "LD_", "GLIBC_", "MALLOC_", "TZ", "OPENSSL_", "OMP_", "OPENBLAS_",
    "MKL_", "BLIS_", "GOTO_", "KMP_", "NPY_", "NUMBA_", "NUMEXPR_", "MPL", "ARROW_",
)  # fmt: skip
_OURS = ("CORDON_WARM=", "CORDON_WARM_TRIAL=")
_STREAMS = 3

_state = {}
#: The program may put others in their places.
_collect, _objects, _unfreeze, _frames = gc.collect, gc.get_objects, gc.unfreeze, sys._current_frames


def _is_at_start(entry):
    name = entry.partition("=")[0]
    return name.startswith(_AT_START)


def _at_start(env):
    ours = "LD_PRELOAD=" + _state["library"]
    return sorted(e for e in env if e != ours and not e.startswith(_OURS) and _is_at_start(e))


def _kinds():
    """What the standard streams are: Python's objects for them depend on it."""
    return [(stat.S_IFMT(os.fstat(fd).st_mode), os.isatty(fd)) for fd in range(_STREAMS)]


def _user_site():
    """The directory from which an interpreter would have run code of this home's."""
    site = sys.modules.get("site")
    path = getattr(site, "USER_SITE", None)
    return path if path is not None and os.path.isdir(path) else None


def _shadows():
    """The modules that go if a file beside the program has the name: not those that are part of the
    interpreter, which come before any file."""
    found = {}
    for name, module in sys.modules.items():
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if name != "__main__" and origin not in (None, "built-in", "frozen"):
            found.setdefault(name.partition(".")[0], []).append(name)
    return found


def prepare(directory):
    """Imports what most programs import, and makes the heap fit to be shared."""
    _state["library"] = os.environ["LD_PRELOAD"]
    with open(directory + "/preload", encoding="utf-8") as file:
        for name in file.read().split():
            __import__(name)
    import atexit
    import importlib.machinery
    import weakref

    with open("/proc/self/environ", "rb") as file:
        first = file.read().split(b"\0")
    _state["env"] = _at_start(map(os.fsdecode, filter(None, first)))
    # What the interpreter has added itself: LC_CTYPE, if there is no locale.
    _state["added"] = {k: v for k, v in os.environb.items() if k + b"=" + v not in first}
    _state["streams"] = _kinds()
    _state["main"] = sys.argv[0]
    _state["user_site"] = _user_site()
    _state["weakref"] = weakref
    _state["loader"] = importlib.machinery.SourceFileLoader
    _state["modules"] = dict(sys.modules)
    del _state["modules"]["__main__"]
    _state["shadows"] = _shadows()
    _state["module"] = type(sys)
    _state["stream"] = sys.modules["io"].IOBase
    globals()["shut_threads"] = sys.modules["threading"]._shutdown
    globals()["run_exit_functions"] = atexit._run_exitfuncs
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    sys.stderr.write(repr([file for file in files if isinstance(file, str)]))
    sys.stderr.flush()
    del files
    gc.collect()
    gc.freeze()
    return 0


def _start_cold(argv, env):
    os.execve(sys.executable, argv, dict(e.split(b"=", 1) for e in env if b"=" in e))


def _hide_shadowed():
    """A module beside the program comes before one that was imported ahead."""
    place = os.path.dirname(_state["main"])
    if not place or place != sys.path[0]:
        return
    for name in os.listdir(place):
        for module in _state["shadows"].get(name.partition(".")[0], ()):
            del sys.modules[module]


def _renew():
    """What was drawn before must not be the same in every process. Modules that ask the kernel each
    time need nothing."""
    modules = sys.modules
    main_thread = modules["threading"].main_thread()
    if hasattr(main_thread, "_set_native_id"):
        main_thread._set_native_id()
    if "random" in modules:
        modules["random"].seed()
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = None
    if "uuid" in modules:
        modules["uuid"]._node = modules["uuid"]._last_timestamp = None
    if "_ssl" in modules:
        modules["_ssl"].RAND_add(os.urandom(32), 32.0)
    if "multiprocessing.process" in modules:
        process = modules["multiprocessing.process"]
        process.current_process()._config["authkey"] = process.AuthenticationString(os.urandom(32))
    if "logging" in modules:
        import time

        modules["logging"]._startTime = time.time()
    if "numpy.random" in modules:
        modules["numpy.random"].seed()


def restore(argv, env):
    """Makes this process the one that ``argv`` and ``env`` ask for."""
    text = [os.fsdecode(entry) for entry in env]
    if (
        len(argv) < 2
        or os.fsdecode(argv[1]) != _state["main"]
        or _at_start(text) != _state["env"]
        or _kinds() != _state["streams"]
        or _user_site() != _state["user_site"]
    ):
        _start_cold(argv, env)
    environ = os.environ._data
    environ.clear()
    for entry in env:
        name, equals, value = entry.partition(b"=")
        if equals and name not in (b"CORDON_WARM_TRIAL",):
            environ.setdefault(name, value)
    for name, value in _state["added"].items():
        os.environb[name] = value
    sys.argv[:] = [os.fsdecode(word) for word in argv[1:]]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [os.fsdecode(word) for word in argv]
    _hide_shadowed()
    _renew()
    _begin(_state["main"])
    return 0


# --- the program's life, as the interpreter itself arranges it ------------------------------------


def _begin(path):
    """A new module for the program, with the names that it finds there. The one that was frozen is
    out of the collector's sight, and so would be whatever it holds."""
    old = sys.modules["__main__"].__dict__
    new = _state["module"]("__main__")
    new.__dict__.clear()
    new.__dict__.update(old)
    if "__annotations__" in old:
        new.__annotations__ = {}
    new.__file__ = path
    new.__cached__ = None
    new.__loader__ = _state["loader"]("__main__", path)
    sys.modules["__main__"] = new


def status_of(error):
    """The exit status of SystemExit; -1: leave it to the interpreter."""
    code = error.code
    if code is None:
        return 0
    if not isinstance(code, int):
        return -1
    return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF


def is_alone():
    """Whether no other thread goes on."""
    return len(_frames()) == 1


def _clear(names):
    """As the interpreter empties a module: private names first."""
    for is_private in (True, False):
        for name in list(names):
            if isinstance(name, str) and name != "__builtins__" and names[name] is not None:
                if (name[:1] == "_" and name[1:2] != "_") is is_private:
                    names[name] = None


def _own_modules():
    """Names of the modules that came with the program. They are the last ones; looking at the others
    would mean copying their memory."""
    own, modules, known = ["__main__"], sys.modules, _state["modules"]
    for name in reversed(modules):
        if name == "__main__" or known.get(name) is modules[name]:
            break
        own.append(name)
    own.reverse()
    return own


def _must_be_ended():
    """Whether something is left that does something at its end, such as a file that has to be
    written: it hangs on a module that was there before. Then the interpreter ends everything."""
    kind = _state["stream"]
    return any(
        hasattr(type(item), "__del__") and not (isinstance(item, kind) and item.closed) for item in _objects()
    )


def end_modules():
    """Takes the program's modules apart, with all they hold, as the interpreter does it. Those that
    were there before are left as they are: that would copy nearly all memory of the image, only to
    give it back."""
    modules = sys.modules
    _collect()
    own = _own_modules()
    alive = [_state["weakref"].ref(modules[n]) for n in own if isinstance(modules[n], _state["module"])]
    for name in ("path", "argv", "ps1", "ps2", "last_type", "last_value", "last_traceback",
                 "last_exc", "path_hooks", "path_importer_cache", "meta_path"):  # fmt: skip
        if hasattr(sys, name):
            setattr(sys, name, None)
    for name in own:
        modules[name] = None
    for name in own:
        del modules[name]
    _collect()
    for reference in alive:
        module = reference()
        if module is not None:
            _clear(module.__dict__)
        module = None
    _collect()
    if not _must_be_ended():
        return 0
    _unfreeze()  # or the collector would not see what holds it
    return -1
