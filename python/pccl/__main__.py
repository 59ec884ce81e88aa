"""The `pccl` command, also as `python -m pccl`: `pccl doctor` is here, all other commands are of the C program `pccl`,
which the package contains."""

from __future__ import annotations

import sys
from typing import Optional, Sequence

from . import _programs, doctor


def main(arguments: Optional[Sequence[str]] = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    return doctor.main(given[1:]) if given[:1] == ["doctor"] else _programs.run(*given)


if __name__ == "__main__":
    sys.exit(main())
