# SPDX-License-Identifier: Apache-2.0
"""The arguments of create() as settings of a session. What would have no effect here is taken only where
nothing depends on it; what asks for a protection is honoured or refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional

from .. import _arguments
from .._policy import Config
from ._errors import InvalidArgumentException, not_here, translated

#: About E2B's service alone.
_OF_THE_SERVICE = frozenset((
    "api_key", "access_token", "domain", "api_url", "sandbox_url", "debug", "request_timeout", "retries",
    "headers", "api_headers", "proxy", "http_version", "validate_api_key", "logger",
))  # fmt: skip
_ALL = ("0.0.0.0/0", "::/0", "*")
#: Of a sandbox, where nothing else is said.
_MEMORY = "1G"


@dataclass
class Options:
    """What a sandbox was made with."""

    template: str
    timeout: float
    config: Config
    settings: Dict[str, Any]
    envs: Dict[str, str] = field(default_factory=dict)
    metadata: Dict[str, str] = field(default_factory=dict)


def service_only(opts: Mapping[str, Any]) -> None:
    """Takes options that only the service has a use for."""
    for name in opts:
        if name not in _OF_THE_SERVICE:
            raise InvalidArgumentException(f"there is no option '{name:.60}'")


def make_options(
    template: Optional[str], timeout: Optional[float], metadata: Optional[Mapping[str, str]],
    envs: Optional[Mapping[str, str]], internet: Optional[bool], network: Optional[Mapping[str, Any]],
    lifecycle: Optional[Mapping[str, Any]], absent: Mapping[str, Any], policy: Config, opts: Mapping[str, Any],
    default_timeout: float,
) -> Options:  # fmt: skip
    """Checks them. ``opts``: those of the service, and settings of pycordon.Sandbox."""
    for name, value in absent.items():
        if value is not None and value is not False:
            not_here(f"{name}=")
    if lifecycle:
        _check_lifecycle(lifecycle)
    settings = {name: value for name, value in opts.items() if name not in _OF_THE_SERVICE}
    with translated():
        variables = _arguments.variables("envs", envs)
        labels = _arguments.variables("metadata", metadata)
    for name in ("workdir", "persist", "keep", "id", "name", "parked", "preload", "warm", "fresh_aslr", "allow_overrides", "env"):
        if name in settings:
            not_here(f"the setting {name}=", "envs= sets variables" if name == "env" else "")
    _network(settings, internet, network)
    if policy is None and not any(name in settings for name in ("limits_memory", "max_memory_mb", "limits")):
        settings["limits_memory"] = _MEMORY
    seconds = default_timeout if timeout is None else timeout
    return Options(template or "base", seconds, policy, settings, variables, labels)


def _check_lifecycle(lifecycle: Mapping[str, Any]) -> None:
    action: Any = lifecycle.get("on_timeout", "kill")
    if isinstance(action, Mapping):
        action = action.get("action")
    if action != "kill" or lifecycle.get("auto_resume") or set(lifecycle) - {"on_timeout", "auto_resume"}:
        not_here(f"lifecycle={dict(lifecycle)!r:.80}", "a sandbox is killed when its time is over")


def _hosts(name: str, value: Any) -> List[str]:
    if callable(value) or isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        not_here(f"network: {name} that is no list of addresses")
    return [str(host) for host in value]


def _network(settings: Dict[str, Any], internet: Optional[bool], network: Optional[Mapping[str, Any]]) -> None:
    """E2B begins open, this here closed: only what is named is reachable."""
    allowed = [settings[name] for name in ("net_allow", "network_enabled", "net") if settings.get(name)]
    if internet is False and (allowed or (network or {}).get("allow_out")):
        raise InvalidArgumentException("allow_internet_access=False contradicts what the sandbox may reach")
    if internet and not allowed and not network:
        raise InvalidArgumentException(
            "allow_internet_access=True: nothing is reachable here that is not named; "
            "net_allow=['example.com', '*.example.org'] names hosts"
        )
    if network is None:
        return
    for name, value in network.items():
        if name not in ("allow_out", "deny_out") and value:
            not_here(f"network: {name}", "allow_out and deny_out are")
    out = _hosts("allow_out", network.get("allow_out") or [])
    if any(host in _ALL for host in out):
        not_here("network: allow_out with everything", "name the hosts")
    if out:
        settings["net_allow"] = [*_listed(settings.get("net_allow")), *out]
    denied = [host for host in _hosts("deny_out", network.get("deny_out") or []) if host not in _ALL]
    if denied:
        settings["net_deny"] = [*_listed(settings.get("net_deny")), *denied]


def _listed(value: Any) -> List[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)
