# SPDX-License-Identifier: Apache-2.0
"""The example runs, offline, and shows what it says."""


def test_example(run_example):
    printed = run_example("openai_agents_agent.py")
    assert "sum: 5050" in printed and "refused:" in printed
    assert "report.md" in printed and "The report is written." in printed
    assert "root:" not in printed
