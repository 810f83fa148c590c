#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turn a text into C string literals, one a line, to be included.

    embed-text.py FILE OUTPUT.h
"""

import json
import sys
from pathlib import Path

text = Path(sys.argv[1]).read_text(encoding="ascii")
# JSON's escapes of printable ASCII are C's as well.
Path(sys.argv[2]).write_text("".join(json.dumps(line) + "\n" for line in text.splitlines(keepends=True)))
