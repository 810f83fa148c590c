# SPDX-License-Identifier: Apache-2.0
"""The project that `cordon new langchain` makes."""

import pathlib

import starters


def test_the_project_works_and_holds(tmp_path):
    tested = pathlib.Path(__file__).with_name("requirements.txt")
    starters.check_project("langchain", tmp_path, tested)


def test_its_tests_notice_a_calculator_without_a_sandbox(tmp_path):
    starters.check_loose("langchain", tmp_path)
