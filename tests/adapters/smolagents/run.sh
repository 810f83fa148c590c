#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PYTHON: our tests, then smolagents' cases of the Docker executor with ours in its place.
. ../suite.sh "$1"
suite own .
suite upstream-executor upstream_executor.py
finish
