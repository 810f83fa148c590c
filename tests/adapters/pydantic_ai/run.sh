#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")" || exit 1
. ../suite.sh
suite conformance test_conformance.py
suite own test_adapter.py
finish
