# SPDX-License-Identifier: Apache-2.0
"""Policies: what a run may do, as data."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple, Union, cast

from . import _cordon, _keys
from ._errors import PolicyError, from_native, raise_native

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._types import PolicySettings, Preset

Document = Dict[str, Any]
StrPath = Union[str, "os.PathLike[str]"]
PRESETS = ("agent", "python", "node", "build", "strict")


@dataclass(frozen=True)
class Fs:
    """Files: what can be read and executed, written, and what stays hidden."""

    read: Optional[Sequence[StrPath]] = None
    write: Optional[Sequence[StrPath]] = None
    deny: Optional[Sequence[StrPath]] = None
    workspace: Optional[StrPath] = None
    protect: Optional[Union[bool, str]] = None


@dataclass(frozen=True)
class Net:
    """Network: hosts that can be connected to, and ports that the host can connect to."""

    allow: Optional[Sequence[str]] = None
    deny: Optional[Sequence[str]] = None
    publish: Optional[Sequence[Union[str, int]]] = None
    max: Optional[Union[int, str]] = None


@dataclass(frozen=True)
class Env:
    """Environment: variables passed on, and variables with their values (``set``)."""

    pass_: Optional[Sequence[str]] = None
    set: Optional[Mapping[str, str]] = None


@dataclass(frozen=True)
class Limits:
    """Limits. Numbers are seconds and bytes; strings may have units ("500ms", "2G")."""

    wall: Optional[Union[float, str]] = None
    grace: Optional[Union[float, str]] = None
    memory: Optional[Union[float, str]] = None
    procs: Optional[int] = None
    cpu: Optional[float] = None
    cpu_time: Optional[Union[float, str]] = None
    open_files: Optional[int] = None
    disk: Optional[Union[int, str]] = None
    file_size: Optional[Union[int, str]] = None
    output: Optional[Union[int, str]] = None
    output_end: Optional[bool] = None


def _group_items(name: str, value: Any) -> List[Tuple[str, Any]]:
    if isinstance(value, (Fs, Net, Env, Limits)):
        pairs = [(f.name.rstrip("_"), getattr(value, f.name)) for f in fields(value)]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        raise PolicyError(f"{name}: {name.capitalize()}(...) or a dict is needed")
    return [(f"{name}.{key}", v) for key, v in pairs]


def _spread(settings: Mapping[str, Any]) -> List[Tuple[str, Any]]:
    """Nested groups become single settings."""
    flat: List[Tuple[str, Any]] = []
    for name, value in settings.items():
        if name in _keys.GROUPS:
            flat += _group_items(name, value) if value is not None else []
        else:
            flat.append((name, value))
    return flat


class Policy:
    """What a run may do. Everything it does not name is closed.

    Settings are the keys of the policy reference with underscores (``fs_read``, ``limits_wall``),
    the same as groups (``fs=Fs(read=[...])``), or the plain names of SandboxConfig
    (``max_memory_mb``). A policy never changes once it is made; :meth:`merged` gives a new one.
    """

    __slots__ = ("_doc", "_unlimited", "_effective")

    def __init__(
        self,
        preset: "Union[Preset, Sequence[Preset], None]" = None,
        **settings: "Unpack[PolicySettings]",
    ) -> None:
        self._doc: Document = {}
        self._unlimited: FrozenSet[str] = frozenset()
        self._effective: Optional[Document] = None
        if preset is not None:
            self._doc["preset"] = _presets(_keys.convert("preset", preset)[1])
        self._put(cast(Dict[str, Any], settings))
        self.native()  # the library's objections are raised here, not at the first run

    def _put(self, settings: Mapping[str, Any]) -> None:
        seen: Dict[str, str] = {}
        network = settings.get("network_enabled")
        for name, value in _spread({k: v for k, v in settings.items() if k != "network_enabled"}):
            key, made = _keys.convert(name, value)
            if made is None:
                continue
            if key == "preset":
                _presets(made)
            if key in seen:
                raise PolicyError(f"'{seen[key]}' and '{name}' are the same setting")
            seen[key] = name
            if made == math.inf:
                self._unlimited |= {key}
                self._doc.pop(key, None)
            else:
                self._unlimited -= {key}
                self._doc[key] = made
        self._put_network(network, seen)

    def _put_network(self, enabled: Optional[bool], seen: Mapping[str, str]) -> None:
        if enabled not in (None, True, False):
            raise PolicyError(f"network_enabled: True or False is needed, not {enabled!r:.60}")
        if enabled is True and not self._doc.get("net.allow"):
            raise PolicyError(
                "network_enabled=True does not say which hosts",
                hint="name them, for instance net_allow=['api.example.com', '*.example.org']",
            )
        if enabled is False and "net.allow" in seen and self._doc["net.allow"]:
            raise PolicyError(
                "network_enabled=False contradicts net_allow", hint="leave one of them out"
            )
        if enabled is False and self._doc.get("net.allow"):
            self._doc["net.allow"] = []

    # --- other ways to get one ---------------------------------------------------------------

    @classmethod
    def _from_doc(cls, doc: Document, unlimited: FrozenSet[str] = frozenset()) -> "Policy":
        made = cls.__new__(cls)
        made._doc = doc
        made._unlimited = unlimited
        made._effective = None
        return made

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Policy":
        """From the structure of a policy file, or from settings by their Python names."""
        if not isinstance(document, Mapping):
            raise PolicyError(f"a dict of settings is needed, not {type(document).__name__}")
        settings = {k: v for k, v in document.items() if k not in ("$schema", "version")}
        return cls(**settings)

    @classmethod
    def from_json(cls, text: str, base_dir: Optional[StrPath] = None) -> "Policy":
        """From a JSON document. Relative paths are relative to ``base_dir`` (default: the current
        directory when the sandbox is made)."""
        if not isinstance(text, str):
            raise PolicyError(f"a JSON text is needed, not {type(text).__name__}")
        native = _cordon.Policy()
        try:
            native.json(text, "policy", None if base_dir is None else os.fspath(base_dir))
            return cls._from_doc(flatten(json.loads(native.to_json())))
        except _cordon.Error as error:
            raise_native(error)

    @classmethod
    def from_file(cls, path: StrPath) -> "Policy":
        """From a policy file; relative paths in it are relative to the file."""
        native = _cordon.Policy()
        try:
            native.file(os.path.abspath(os.fspath(path)))
            return cls._from_doc(flatten(json.loads(native.to_json())))
        except _cordon.Error as error:
            raise_native(error)

    # --- what it says --------------------------------------------------------------------------

    def get(self, name: str, default: Any = None) -> Any:
        """The value of one setting as the policy states it (presets included)."""
        key = _keys.find_key(name)
        return self.effective().get(key, default)

    def effective(self) -> Document:
        """Every stated value by its key with dots; presets are resolved."""
        if self._effective is None:
            try:
                self._effective = flatten(json.loads(self.native().to_json()))
            except _cordon.Error as error:
                raise_native(error)
        return dict(self._effective)

    @property
    def unlimited(self) -> FrozenSet[str]:
        """Limits that have a default and were switched off with ``math.inf``."""
        return self._unlimited

    def merged(self, **settings: "Unpack[PolicySettings]") -> "Policy":
        """A new policy with more settings: lists add up, single values are replaced, as everywhere
        in Cordon."""
        other = Policy._from_doc({}, self._unlimited)
        other._put({k: v for k, v in settings.items() if k != "network_enabled"})
        doc = merge(self._doc, other._doc)
        for key in other._unlimited:
            doc.pop(key, None)
        made = Policy._from_doc(doc, other._unlimited)
        made._put_network(settings.get("network_enabled"), keys_of(settings))
        made.native()
        return made

    def replaced(self, **settings: "Unpack[PolicySettings]") -> "Policy":
        """A new policy in which the given settings replace what was there, lists too."""
        made = Policy._from_doc(dict(self.effective()), self._unlimited)
        made._put(settings)
        made.native()
        return made

    def tightens(self, other: "Policy") -> bool:
        """Whether nothing is allowed here that ``other`` does not allow."""
        from ._tighten import loosened

        if not isinstance(other, Policy):
            raise PolicyError(f"a Policy is needed, not {type(other).__name__}")
        return loosened(other, self.effective(), self._unlimited, complete=True) is None

    def to_dict(self) -> Dict[str, Any]:
        """The structure of a policy file."""
        return nest(self.effective())

    def to_json(self) -> str:
        """As a policy file; limits switched off with ``math.inf`` cannot be written there."""
        return json.dumps({"version": 1, **self.to_dict()}, indent=2)

    def native(self, base_dir: Optional[str] = None) -> _cordon.Policy:
        """A new policy object of the library."""
        native = _cordon.Policy()
        try:
            for name in self._doc.get("preset", ()):
                native.preset(name)
            native.json(json.dumps(nest(self._doc)), "policy", base_dir)
        except _cordon.Error as error:
            made = from_native(error)
            # The caller never saw this text, so its lines and columns mean nothing.
            made.message = re.sub(r"^policy:\d+:\d+: ", "", made.message)
            made.args = (made.message,)
            raise made from None
        return native

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy):
            return NotImplemented
        return self.effective() == other.effective() and self._unlimited == other._unlimited

    def __hash__(self) -> int:
        return hash(json.dumps(self.effective(), sort_keys=True))

    def __repr__(self) -> str:
        parts = [f"{k.replace('.', '_')}={v!r}" for k, v in self._doc.items()]
        parts += [f"{k.replace('.', '_')}=inf" for k in sorted(self._unlimited)]
        return f"Policy({', '.join(parts)})"


def from_document(doc: Document, unlimited: FrozenSet[str] = frozenset()) -> Policy:
    """A policy from settings that the library has accepted before: key with dots -> value."""
    return Policy._from_doc(doc, unlimited)


def stated(policy: Policy) -> Document:
    """Every stated value, and lists that are empty: they say "none of these", and would say nothing
    when written as JSON."""
    return {**policy.effective(), **{k: v for k, v in policy._doc.items() if v == []}}


def keys_of(settings: Mapping[str, Any]) -> Dict[str, str]:
    """Key -> the name it was given by, for settings that have a value."""
    pairs = _spread({k: v for k, v in settings.items() if k != "network_enabled"})
    return {_keys.find_key(name): name for name, value in pairs if value is not None}


def flatten(document: Mapping[str, Any]) -> Document:
    """A policy file's structure as key with dots -> value."""
    flat: Document = {}
    for name, value in document.items():
        if name in _keys.GROUPS:
            flat.update({f"{name}.{key}": v for key, v in value.items()})
        elif name not in ("$schema", "version"):
            flat[name] = value
    return flat


def nest(doc: Mapping[str, Any]) -> Dict[str, Any]:
    """The opposite, without presets."""
    nested: Dict[str, Any] = {}
    for key, value in doc.items():
        group, _, name = key.rpartition(".")
        if key != "preset":
            (nested.setdefault(group, {}) if group else nested)[name] = value
    return nested


def merge(base: Mapping[str, Any], more: Mapping[str, Any]) -> Document:
    """Lists add up, single values are replaced by the later one."""
    doc = dict(base)
    for key, value in more.items():
        old = doc.get(key)
        if isinstance(value, list) and isinstance(old, list):
            doc[key] = old + [v for v in value if v not in old]
        elif isinstance(value, dict) and isinstance(old, dict):
            doc[key] = {**old, **value}
        else:
            doc[key] = value
    return doc


def working_in(policy: Policy, directory: Optional[str]) -> Policy:
    """The same policy with its presets spelled out. What they grant and deny in the current directory
    is meant for ``directory``, or (None) for no directory of the host."""
    names = policy._doc.get("preset")
    if not names:
        return policy
    doc = Policy._from_doc({"preset": names}).effective()
    if directory is None:
        for key in ("fs.read", "fs.write", "fs.deny"):
            doc[key] = [p for p in doc.get(key, ()) if p != "." and not p.startswith("./")]
    native = _cordon.Policy()
    try:
        native.json(json.dumps(nest(doc)), "preset", directory)
        doc = flatten(json.loads(native.to_json()))
    except _cordon.Error as error:
        raise_native(error)
    doc = merge(doc, {key: value for key, value in policy._doc.items() if key != "preset"})
    made = {key: value for key, value in doc.items() if key not in policy.unlimited}
    return Policy._from_doc(made, policy.unlimited)


@dataclass
class SandboxConfig:
    """Settings by their plain names. On its own it means 30 s, 256 MB, half a CPU, 1,000,000 bytes
    of output per stream, no network, nothing writable, all commands. ``writable_paths`` is another
    name of ``fs_write``; only one of them can be given."""

    max_execution_seconds: Optional[float] = 30
    max_memory_mb: Optional[float] = 256
    max_cpu_percent: Optional[float] = 50
    max_output_bytes: Optional[int] = 1_000_000
    max_procs: Optional[int] = None
    network_enabled: bool = False
    net_allow: Sequence[str] = field(default_factory=list)
    fs_read: Sequence[StrPath] = field(default_factory=list)
    fs_write: Sequence[StrPath] = field(default_factory=list)
    writable_paths: Sequence[StrPath] = field(default_factory=list)
    allowed_commands: Optional[Sequence[str]] = None

    def policy(self) -> Policy:
        """The same as a policy."""
        settings: Dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("net_allow", "fs_read", "fs_write", "writable_paths"):
            settings[name] = settings[name] or None
        if settings["net_allow"] and not self.network_enabled:
            settings.pop("network_enabled")  # naming hosts is asking for them
        return Policy(**settings)


def _presets(names: List[str]) -> List[str]:
    for name in names:
        if name not in PRESETS:
            raise _unknown_preset(f"unknown preset {name!r:.60}", name)
    return names


def _unknown_preset(message: str, name: str) -> PolicyError:
    import difflib

    near = difflib.get_close_matches(name, PRESETS, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"presets: {', '.join(PRESETS)}"
    return PolicyError(message, hint=hint)


Config = Union[SandboxConfig, Policy, Mapping[str, Any], str, "os.PathLike[str]", None]


def make_policy(config: Config, settings: Mapping[str, Any]) -> Policy:
    """What ``Sandbox(config, **settings)`` means."""
    if config is None:
        base = Policy()
    elif isinstance(config, Policy):
        base = config
    elif isinstance(config, SandboxConfig):
        base = config.policy()
    elif isinstance(config, Mapping):
        base = Policy.from_dict(config)
    elif not isinstance(config, (str, os.PathLike)):
        raise PolicyError(
            f"settings cannot be of type {type(config).__name__}",
            hint="a SandboxConfig, a Policy, a dict, a preset's name or the path of a policy file",
        )
    elif isinstance(config, os.PathLike) or "/" in config or config.endswith(".json"):
        base = Policy.from_file(config)
    elif config in PRESETS:
        base = Policy(preset=cast("Preset", config))
    else:
        raise _unknown_preset(
            f"{config!r:.60} is neither a preset nor the path of a policy file", config
        )
    return base.merged(**settings) if settings else base
