#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PYTHON: our tests; CrewAI has none for tools of this kind. Each wrapped call imports CrewAI
# inside, so root runs only what can depend on who calls.
. ../suite.sh "$1"
if [ "$WHO" = root ]; then
	suite own . -k 'hostile or files or attach or persistent or installed or current or policy'
else
	suite own .
fi
finish
