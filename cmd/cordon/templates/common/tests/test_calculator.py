# SPDX-License-Identifier: Apache-2.0
from calculator import calculate


def test_it_calculates():
    assert calculate("2 * (3 + 4) ** 2") == "98"
    assert calculate("-sqrt(16)") == "-4.0"


def test_mistakes_are_told():
    assert calculate("1 / 0") == "error: ZeroDivisionError: division by zero"
    assert calculate("1 +").startswith("error: SyntaxError")
    assert "time" in calculate("sum(iter(int, 1))")


def test_attacks_work_outside(host, attack, outside):
    assert host.is_harmed(outside(host.program(attack)))


def test_attacks_fail_in_the_calculator(host, attack):
    answer = calculate(host.expression(attack))
    assert answer.startswith("error: ")
    assert not host.is_harmed(answer)
