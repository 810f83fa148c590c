# SPDX-License-Identifier: Apache-2.0
"""``python -m pycordon`` is the command ``cordon``."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from ._native import command
from ._errors import CordonError


def main() -> NoReturn:
    """Becomes the command that belongs to this package."""
    try:
        path = command()
    except CordonError as error:
        sys.exit(f"cordon: {error}")
    os.execv(path, ["cordon", *sys.argv[1:]])


if __name__ == "__main__":
    main()
