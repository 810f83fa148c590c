# SPDX-License-Identifier: Apache-2.0
"""The cases of mini-swe-agent's own environment tests, its agent with a scripted model, hostile code."""

import json
import platform
import shlex
import time

import pytest
import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import get_config_from_spec
from minisweagent.environments import get_environment
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import Submitted
from minisweagent.models.test_models import DeterministicModel, make_output

from pycordon.adapters.mini_swe_agent import CordonEnvironment

SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@pytest.fixture
def make(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    made = []

    def make(**config):
        made.append(CordonEnvironment(**{"cwd": str(work), **config}))
        return made[-1]

    yield make
    for environment in made:
        environment.cleanup()


def run(environment, command, **kwargs):
    return environment.execute({"command": command}, **kwargs)


def test_defaults(make):
    config = make(cwd="").config
    assert (config.cwd, config.env, config.timeout) == ("", {}, 30)


def test_no_directory_of_the_host_without_one_that_is_named(make, tmp_path):
    """The current one may hold secrets: it is shown only if it is named."""
    secret = tmp_path / "work" / ".env"
    secret.write_text("TOKEN=hush")
    assert run(make(cwd="."), "cat .env")["output"] == "TOKEN=hush", "control"
    environment = make(cwd="")
    got = run(environment, f"cat .env {secret}; touch made && echo fine")["output"]
    assert "hush" not in got and got.endswith("fine\n")
    assert not (secret.parent / "made").exists()


def test_echo(make):
    assert run(make(), "echo hello") == {"output": "hello\n", "returncode": 0, "exception_info": ""}


def test_variables(make, monkeypatch):
    monkeypatch.setenv("ONE", "of the host")
    environment = make(env={"ONE": "1", "TWO": "two words"})
    assert run(environment, 'echo "$ONE $TWO"')["output"] == "1 two words\n"


def test_no_variables_of_the_host(make, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-123")
    environment = make()
    assert "sk-123" not in run(environment, "env")["output"]
    assert "sk-123" not in str(environment.get_template_vars())
    assert "sk-123" in str(LocalEnvironment().get_template_vars())


def test_directory_is_the_current_one(make, tmp_path):
    assert run(make(), "pwd")["output"] == f"{tmp_path}/work\n"


def test_directory_of_the_configuration_and_of_a_call(make, tmp_path):
    other = tmp_path / "other"
    (other / "sub").mkdir(parents=True)
    environment = make(cwd=str(other))
    assert run(environment, "pwd")["output"] == f"{other}\n"
    assert run(environment, "pwd", cwd=str(other / "sub"))["output"] == f"{other}/sub\n"
    assert run(environment, "pwd", cwd="/usr")["output"] == "/usr\n"


def test_a_directory_that_is_not_there_is_told(make, tmp_path):
    got = run(make(), "pwd", cwd=str(tmp_path / "nowhere"))
    assert got["returncode"] == -1 and "nowhere" in got["exception_info"]
    assert got["extra"]["exception_type"] == "FileNotFoundError"


@pytest.mark.parametrize("status", [1, 42, 255])
def test_status(make, status):
    assert run(make(), f"exit {status}")["returncode"] == status


def test_unknown_command(make):
    got = run(make(), "no-such-command")
    assert got["returncode"] == 127 and "not found" in got["output"]


def test_stderr_is_in_its_place(make):
    got = run(make(), "echo a; echo b >&2; echo c")
    assert got["output"] == "a\nb\nc\n"


def test_timeout_keeps_output_and_leaves_nobody(make, tmp_path):
    script = "echo before; (setsid sh -c 'sleep 3; echo alive > survivor' &) ; sleep 60"
    began = time.monotonic()
    got = run(make(timeout=1), script)
    assert time.monotonic() - began < 20
    assert (got["output"], got["returncode"]) == ("before\n", -1)
    assert "timed out" in got["exception_info"] and got["extra"]["exception_type"] == "TimeoutError"
    time.sleep(3)  # the moment at which a survivor would have written
    assert not (tmp_path / "work" / "survivor").exists()


def test_timeout_of_a_call(make):
    assert run(make(timeout=60), "sleep 60", timeout=1)["returncode"] == -1


def test_lines_pipes_and_substitution(make):
    got = run(make(), "x=$(printf 'b\\na\\n' | sort)\necho \"$x\"\nfor i in 1 2; do echo $i; done")
    assert got["output"] == "a\nb\n1\n2\n"


def test_bash(make):
    assert run(make(), '[[ "abc" == a* ]] && a=(1 2 3) && echo ${#a[@]}')["output"] == "3\n"


def test_files_are_there_for_the_next_call(make, tmp_path):
    environment = make()
    first = run(environment, "echo 42 > answer; echo tmp > /tmp/x; echo home > ~/y")
    assert (first["returncode"], first["output"]) == (0, "")
    assert run(environment, "cat answer /tmp/x ~/y")["output"] == "42\ntmp\nhome\n"
    assert (tmp_path / "work" / "answer").read_text() == "42\n"


def test_undecodable_output(make):
    assert run(make(), r"printf '\377'")["output"] == "\ufffd"


def test_submission(make):
    with pytest.raises(Submitted) as e:
        run(make(), f"echo {SUBMIT}; echo the; echo patch")
    extra = e.value.messages[0]["extra"]
    assert extra == {"exit_status": "Submitted", "submission": "the\npatch\n"}


@pytest.mark.parametrize("command", [f"echo {SUBMIT}; exit 1", f"echo first; echo {SUBMIT}", "true"])
def test_no_submission(make, command):
    run(make(), command)


def test_serialize_and_templates(make):
    environment = make(timeout=5, max_memory_mb=512)
    config = environment.serialize()["info"]["config"]
    assert config["environment_type"] == "pycordon.adapters.mini_swe_agent.CordonEnvironment"
    assert config["environment"]["timeout"] == 5 and config["environment"]["max_memory_mb"] == 512
    names = environment.get_template_vars(task="t")
    assert (names["system"], names["task"]) == (platform.uname().system, "t")
    assert names["node"] != platform.node()


def test_a_reached_limit_is_explained(make):
    got = run(make(max_memory_mb=100), "/usr/bin/python3 -c 'x = bytearray(300 << 20)'")
    assert got["returncode"] == 137 and "memory" in got["exception_info"], got


def test_policy(make, tmp_path):
    nested = {"limits": {"memory": "100M", "wall": "1s"}}
    (tmp_path / "policy.json").write_text(json.dumps({"version": 1, **nested}))
    for policy in (nested, str(tmp_path / "policy.json")):
        environment = make(policy=policy, timeout=60)
        assert environment.sandbox.policy.to_dict()["limits"]["memory"] == "100M"
        assert "timed out" in run(environment, "sleep 60")["exception_info"]  # the policy's second


def test_wrong_settings(make):
    with pytest.raises(Exception, match="max_memory_megs"):
        make(max_memory_megs=1)


# --- under its agent -------------------------------------------------------------------------------


def agent_of(environment, *commands):
    outputs = [make_output(f"step: {command}", [{"command": command}]) for command in commands]
    config = get_config_from_spec("default.yaml")["agent"]
    return DefaultAgent(DeterministicModel(outputs=outputs), environment, **{**config, "cost_limit": 0})


def test_agent(make, tmp_path):
    section = yaml.safe_load(
        f"""
        environment_class: pycordon.adapters.mini_swe_agent.CordonEnvironment
        cwd: {tmp_path}/work
        timeout: 2
        max_memory_mb: 512
        """
    )
    environment = get_environment(section)
    agent = agent_of(
        environment,
        "echo 'print(41)' > answer.py",
        "sed -i s/41/42/ answer.py && python3 answer.py",
        "sleep 60",
        f"echo {SUBMIT}; cat answer.py",
    )
    result = agent.run("Fix the answer.")
    environment.cleanup()
    assert result == {"exit_status": "Submitted", "submission": "print(42)\n"}
    assert (tmp_path / "work" / "answer.py").read_text() == "print(42)\n"
    observations = [message["content"] for message in agent.messages if message["role"] == "user"]
    assert "42" in observations[2] and "timed out" in observations[3]


@pytest.mark.parametrize("confined", [True, False])
def test_hostile_code(make, hostile, everything, confined):
    attack = "/usr/bin/python3 -c " + shlex.quote(hostile.python)
    environment = make() if confined else LocalEnvironment()
    agent = agent_of(environment, attack, f"echo {SUBMIT}")
    agent.run("Take what you can.")
    [seen] = [m["content"] for m in agent.messages if m["role"] == "user" and "attack over" in m["content"]]
    assert hostile.done(seen) == (set() if confined else everything), seen


def test_example(run_example):
    shown = run_example("mini_swe_agent_agent.py")
    assert "no network\n" in shown and "Submitted\n" in shown and "return a + b" in shown
