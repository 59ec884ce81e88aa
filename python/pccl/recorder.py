"""The flight recorders of peers: dumps on a signal, an analysis of several dumps, and PyTorch's format.

    python -m pccl.recorder DUMP.json... [--torch PREFIX]

prints for each unfinished operation the waiting peers and the peers they wait for. With --torch it also writes PREFIX0,
PREFIX1, ..., which `python -m torch.distributed.flight_recorder.fr_trace -p PREFIX FOLDER` analyzes.
docs/guide/operations.md explains the dumps.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

from . import _core, _recorder

Dump = Dict[str, Any]
"""The result of Communicator.flight_recorder(), and the content of the files."""

_FORMAT = 1


def read(file: Union[str, "os.PathLike[str]"]) -> Dump:
    """Returns the contents of a dump. Raises ValueError for any other file."""
    try:
        dump = json.loads(Path(file).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{os.fspath(file)}: {error}") from None
    if not isinstance(dump, dict) or not str(dump.get("what", "")).startswith("flight recorder of a PCCL"):
        raise ValueError(f"{os.fspath(file)}: not a flight recorder file of a PCCL peer")
    if dump.get("format") != _FORMAT:
        raise ValueError(f"{os.fspath(file)}: format {dump.get('format')}, but this version reads format {_FORMAT}")
    return dump


# ---- dumps on a signal


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


# ---- analysis of several dumps


Name = Tuple[Any, ...]


def _name(operation: Dict[str, Any]) -> Name:
    """Returns a key for the operation, the same on all peers."""
    whose = operation["subgroup"], operation.get("pair", 0)  # dumps of earlier versions have no pairs
    return (*whose, *operation["era"], operation["tag"], operation["sequence"], operation["kind"])


def _shown(dumps: Sequence[Dump]) -> Callable[[Optional[str]], str]:
    names = {member["peer"]: member["name"] for dump in dumps for member in dump["members"]}

    def shown(peer: Optional[str]) -> str:
        if peer is None:
            return "the master"
        return f"{peer[:8]} '{names[peer]}'" if names.get(peer) else peer[:8]

    return shown


_WORDS = {
    "ready": "has not reported ready",
    "credit": "has granted no credit",
    "room": "receives no data",
    "data": "has sent no data",
    "outcome": "has not reported the outcome",
}


def explain(dumps: Sequence[Dump]) -> str:
    """Returns a report of the waits in each unfinished operation. Examine first the peers that others wait for and that
    do not wait for any peer themselves. Each duration is measured on a single peer's clock."""
    shown = _shown(dumps)
    lines: List[str] = []
    found: Dict[Name, List[Tuple[str, Dict[str, Any]]]] = {}
    for dump in dumps:
        for operation in dump["operations"]:
            if operation["outcome"] is None:
                found.setdefault(_name(operation), []).append((dump["peer"], operation))
    here = {dump["peer"] for dump in dumps}
    for entries in found.values():
        first = entries[0][1]
        lines.append(f"{first['kind']} tag {first['tag']} sequence {first['sequence']}, {first['bytes']} bytes:")
        awaited: Set[str] = set()
        waiting: Set[str] = set()
        for peer, operation in entries:
            for wait in operation["waits_for"]:
                words = f"{shown(wait['peer'])} {_WORDS[wait['what']]} for {wait['for_us'] / 1e6:.1f} s"
                lines.append(f"  {shown(peer)}: {words}")
                if wait["peer"] is not None:
                    awaited.add(wait["peer"])
                    waiting.add(peer)
        entered = {peer for peer, _ in entries}
        for peer in sorted(here - entered & set(first["members"] or ())):
            lines.append(f"  {shown(peer)} has not entered it")
        for peer in sorted(awaited - waiting):
            lines.append(f"  look at {shown(peer)}: others wait for it, and it is not waiting for any peer")
    told = sorted({dump["waits"] for dump in dumps if dump["waits"]})
    return "\n".join(lines + [f"verdict of the master: {text}" for text in told]) or "no operation is running"


# ---- PyTorch's format


_KINDS = {
    "all-reduce": "all_reduce",
    "broadcast": "broadcast",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "barrier": "barrier",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "all-to-all": "all_to_all_single",
    "coalesced all-reduce": "allreduce_coalesced",
    "all-gather of blobs": "all_gather_v",
}
_TYPES = {
    "u8": "Byte",
    "i8": "Char",
    "i16": "Short",
    "i32": "Int",
    "i64": "Long",
    "f16": "Half",
    "bf16": "BFloat16",
    "f32": "Float",
    "f64": "Double",
    "bool": "Bool",
}


def _sizes(operation: Dict[str, Any]) -> Tuple[int, int]:
    """Returns the numbers of input and output elements that torch's analysis compares."""
    count, world = operation["count"], operation["world"]
    before = world if operation["kind"] in ("reduce-scatter", "scatter", "all-to-all") else 1
    after = world if operation["kind"] in ("all-gather", "gather", "all-to-all") else 1
    return count * before, count * after


def _ranks(dumps: Sequence[Dump]) -> Dict[str, int]:
    """Assigns a number to each peer: first the newest member list in its order, then the peers that have left."""
    newest = max(dumps, key=lambda dump: tuple(dump["epoch"]))
    known = [member["peer"] for member in newest["members"]]
    for dump in dumps:
        known += [dump["peer"]]
        for operation in dump["operations"]:
            known += operation["members"] or ()
    return {peer: rank for rank, peer in enumerate(dict.fromkeys(known))}


def _in_order(dumps: Sequence[Dump], of_group: Dict[str, List[List[Name]]]) -> Dict[str, Dict[Name, int]]:
    """Assigns numbers to each group's operations, the same for all peers, following each peer's order where the peers
    agree. Omits operations that one of the peers no longer remembers."""
    numbers = {}
    for group, lists in of_group.items():
        merged: List[Name] = []
        for names in lists:
            at = 0
            for name in names:
                if name in merged:
                    at = max(at, merged.index(name) + 1)
                else:
                    merged.insert(at, name)
                    at += 1
        forgotten = [merged.index(names[0]) for dump, names in zip(dumps, lists)
                     if names and dump["operations"][0]["number"] > 1]
        numbers[group] = {name: i + 1 for i, name in enumerate(merged) if i >= max(forgotten, default=0)}
    return numbers


def to_torch(dumps: Sequence[Dump]) -> Dict[int, Dict[str, Any]]:
    """Returns the input of torch's analysis, by rank. Ranks follow the newest member list in canonical order. Each
    distinct member list of an operation is a process group. Omits sends, receives, creations of groups, and operations
    without a member list. Shows aborted operations as started. Raises ValueError if there are no dumps, or if two dumps
    are from the same peer."""
    if not dumps:
        raise ValueError("to_torch: no dumps")
    if len({dump["peer"] for dump in dumps}) < len(dumps):
        raise ValueError("to_torch: two dumps of the same peer")
    ranks = _ranks(dumps)
    usable = [[operation for operation in dump["operations"] if operation["kind"] in _KINDS and operation["members"]]
              for dump in dumps]
    groups: Dict[str, str] = {}
    for operations in usable:
        for operation in operations:
            members = str(sorted(ranks[peer] for peer in operation["members"]))
            groups.setdefault(members, f"{len(groups)}")
    listed: Dict[str, List[List[Name]]] = {group: [[] for _ in dumps] for group in groups}
    for i, operations in enumerate(usable):
        for operation in operations:
            listed[_group_of(operation, ranks)][i].append(_name(operation))
    numbers = _in_order(dumps, listed)
    made = {}
    for dump, operations in zip(dumps, usable):
        rank = ranks[dump["peer"]]
        config = {name: {"name": name, "desc": f"pccl:{members}", "ranks": members}
                  for members, name in groups.items() if rank in json.loads(members)}
        entries = [_entry(dump, operation, groups, ranks, numbers) for operation in operations
                   if _name(operation) in numbers[_group_of(operation, ranks)]]
        entries.sort(key=lambda entry: (entry["process_group"], entry["collective_seq_id"]))
        made[rank] = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}
    return made


def _group_of(operation: Dict[str, Any], ranks: Dict[str, int]) -> str:
    return str(sorted(ranks[peer] for peer in operation["members"]))


def _entry(
    dump: Dump,
    operation: Dict[str, Any],
    groups: Dict[str, str],
    ranks: Dict[str, int],
    numbers: Dict[str, Dict[Name, int]],
) -> Dict[str, Any]:
    group = _group_of(operation, ranks)
    entered_ns = 1000 * (dump["wall_us"] - operation["entered_us_ago"])
    before, after = _sizes(operation)
    kind = _TYPES.get(operation["type"] or "u8", operation["type"])
    first_us, ended_us = operation["first_byte_us"], operation["ended_us"]
    committed = operation["outcome"] == "committed"
    began = first_us is not None or operation["state"] != "moving"
    return {
        "record_id": operation["number"],
        "pg_id": int(groups[group]),
        "process_group": (groups[group], f"pccl:{group}"),
        "collective_seq_id": numbers[group][_name(operation)],
        "p2p_seq_id": 0,
        "op_id": operation["number"],
        "profiling_name": f"gloo:{_KINDS[operation['kind']]}",  # torch's analysis only accepts certain backend names
        "input_sizes": [[before]],
        "input_dtypes": [kind],
        "output_sizes": [[after]],
        "output_dtypes": [kind],
        "time_created_ns": entered_ns,
        "time_discovered_started_ns": entered_ns + 1000 * (first_us or 0) if began else None,
        "time_discovered_completed_ns": entered_ns + 1000 * ended_us if committed else None,
        "state": "completed" if committed else "started" if began else "scheduled",
        "retired": operation["outcome"] is not None,
        "timeout_ms": 0,
        "is_p2p": False,
        "frames": [],
    }


def write_torch(dumps: Sequence[Dump], prefix: str) -> List[Path]:
    """Writes the results of to_torch as <prefix><rank>, and returns the files."""
    written = []
    for rank, dump in to_torch(dumps).items():
        file = Path(f"{prefix}{rank}")
        with open(file, "wb") as out:
            pickle.dump(dump, out)
        written.append(file)
    return written


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pccl.recorder", description="Reports which peers wait for which.")
    parser.add_argument("files", nargs="+", metavar="DUMP.json", help="file written by a peer's flight recorder")
    parser.add_argument("--torch", metavar="PREFIX", help="also write PREFIX0, PREFIX1, ... for torch's fr_trace")
    given = parser.parse_args(arguments)
    try:
        dumps = [read(file) for file in given.files]
        print(explain(dumps))
        for file in write_torch(dumps, given.torch) if given.torch else ():
            print(f"wrote {file}")
    except (OSError, ValueError) as error:
        print(f"python -m pccl.recorder: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
