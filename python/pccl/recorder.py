"""The flight recorders of this process's peers, written on a signal. `pccl recorder DUMP.json...`, also as
`python -m pccl.recorder`, explains the dumps of several peers, by the C program; so does docs/guide/operations.md."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, List, Optional, Sequence, Union

from . import _core, _programs, _recorder


def dump_all(folder: Union[str, "os.PathLike[str]"] = ".") -> List[Path]:
    """Writes <folder>/pccl-<peer id>.json for each communicator of this process, and returns the files. May be called
    from any thread, even while others are blocked in calls."""
    written = []
    for core in list(_core.open_cores):
        if not core.is_of_this_process or core.closed:
            continue
        text = _recorder.text(core)
        file = Path(folder) / f"pccl-{json.loads(text)['peer']}.json"
        unfinished = file.with_name(f"{file.name}.{os.getpid()}.tmp")
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, file)
        written.append(file)
    return written


def dump_on_signal(folder: Union[str, "os.PathLike[str]"] = ".", number: Optional[int] = None) -> Any:
    """Installs a handler of the signal `number` (default SIGUSR2) that writes this process's flight recorders into the
    folder, as dump_all does, and prints any error. Call it on the main thread. Returns the previous handler, for
    signal.signal(). The handler also runs while the main thread waits in a call of this package."""
    folder = Path(folder)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"dump_on_signal: {folder} is not a writable directory")

    def handler(_number: int, _frame: Any) -> None:
        try:
            for file in dump_all(folder):
                print(f"pccl: flight recorder written to {file}", file=sys.stderr, flush=True)
        except Exception as error:  # a diagnostic must not end the program
            print(f"pccl: cannot write the flight recorder: {error}", file=sys.stderr, flush=True)

    return signal.signal(signal.SIGUSR2 if number is None else number, handler)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    return _programs.run("recorder", *(sys.argv[1:] if arguments is None else arguments))


if __name__ == "__main__":
    sys.exit(main())
