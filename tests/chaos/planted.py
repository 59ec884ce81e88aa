#!/usr/bin/env python3
"""Plants known bugs in the library, one after another; chaos must find each.

    planted.py [--build FOLDER] [--only NAME] [--clean]

Only the files with the bug are compiled again, and the library and the master are linked with them. Each bug gets
episodes of chaos until one has a violation of a kind that fits the bug.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import time

import chaos

sys.path.insert(0, str(chaos.HERE.parent / "sim"))
import audit  # noqa: E402 pylint: disable=wrong-import-position

# kinds: of violations, one of which must be found
Bug = collections.namedtuple("Bug", "name why kinds edits")

LIMIT_S = 180  # of running, for each bug
EPISODE_S = 30
HANG_S = 45  # instead of the limits of chaos, which has longer episodes

BUGS = [
    Bug("fold_leaves_out_an_element",
        "one rank of a ring does not add its own last element of a block",
        ["wrong"],
        [
            ("src/collective/fold.c",
             "contribution_of(transfer, plan, own, count, room), count); if (finish && !whole && !streams)",
             "contribution_of(transfer, plan, own, count, room), "
             "plan->seat.rank == 1 && count > 4 ? count - 1 : count); if (finish && !whole && !streams)"),
        ]),
    Bug("scan_leaves_out_an_element",
        "one rank does not add its own last element of a block to the sum of the earlier ranks",
        ["wrong"],
        [
            ("src/collective/fold.c",
             "&step, sum, sum, own, count); else if (pccl_plan_is_wide(plan, 0))",
             "&step, sum, sum, own, plan->seat.rank == 1 && count > 4 ? count - 1 : count); "
             "else if (pccl_plan_is_wide(plan, 0))"),
        ]),
    Bug("sum_of_packed_parts_lacks_one",
        "the owner of a part of a sum with a codec leaves out the last of the others",
        ["wrong"],
        [
            ("src/collective/fold.c",
             "for (uint32_t i = 1; i < part_count; i++) { pccl_packing_decode(",
             "for (uint32_t i = 1; i + 1 < part_count; i++) { pccl_packing_decode("),
        ]),
    Bug("failure_is_a_success_where_all_is_there",
        "a peer whose own part is complete takes an abort for a commit",
        ["agreement", "left out"],
        [
            ("src/peer/operations.c",
             "bool commit = outcome->class == PCCL_CLASS_NONE; pccl_peer_confirm(",
             "bool commit = outcome->class == PCCL_CLASS_NONE || (op->complete && !op->tiny); pccl_peer_confirm("),
            ("src/peer/operations.c",
             "if (commit) { op->world = outcome->world;",
             "if (commit) { if (outcome->world != 0) op->world = outcome->world;"),
            ("src/peer/operations.c",
             "decide(p, op, (enum pccl_class)outcome->class, reason); } void pccl_peer_outcome(",
             "decide(p, op, commit ? PCCL_CLASS_NONE : (enum pccl_class)outcome->class, reason); } "
             "void pccl_peer_outcome("),
        ]),
    Bug("wake_up_is_lost",
        "one of 150 waiting threads does not learn that its call has ended",
        ["hang", "liveness"],
        [
            ("src/drive/comm_wait.c",
             "if (!waiter || waiter->fired) return; waiter->fired = true;",
             "static unsigned signals; if (!waiter || waiter->fired || ++signals % 150 == 0) return; "
             "waiter->fired = true;"),
        ]),
    Bug("member_list_is_off_by_one",
        "the list of participants begins with the second one",
        ["participants", "wrong", "agreement"],
        [
            ("src/drive/comm_op_end.c",
             "pccl_id_write(&operation->members->ids[i], info->participants[i].digits",
             "pccl_id_write(&operation->members->ids[(i + 1) % operation->members->count], "
             "info->participants[i].digits"),
        ]),
    Bug("input_of_an_aborted_attempt_is_not_restored",
        "an operation in place that failed leaves sums in the buffer, and the next attempt adds them again",
        ["wrong"],
        [
            ("src/collective/transfer.c",
             "for (uint32_t i = 0; i < transfer->section_count; i++) pccl_backup_restore(",
             "for (uint32_t i = 1; i < transfer->section_count; i++) pccl_backup_restore("),
        ]),
]


def commands_of(build, target):
    done = subprocess.run(["ninja", "-C", str(build), "-t", "commands", target], text=True, capture_output=True,
                          check=True)  # fmt: skip
    return done.stdout.splitlines()


def compile_again(build, folder, source, text):
    """Compiles the source with the bug. Returns {object of the build: object with the bug}."""
    changed = folder / source
    changed.parent.mkdir(parents=True, exist_ok=True)
    changed.write_text(text)
    objects = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if entry["file"] != str(audit.ROOT / source):
            continue
        words = shlex.split(entry["command"])
        at = words.index("-o") + 1
        own = folder / words[at].replace("/", "_")
        objects[words[at]] = str(own)
        words[at] = str(own)
        words = [str(changed) if word == entry["file"] else word for word in words]
        subprocess.run(words + ["-w", "-Wno-error"], cwd=entry["directory"], check=True)
    return objects


def link(build, command, objects, output, more=()):
    words = shlex.split(command)  # the link command lies between others
    begin = words.index("&&") + 1
    words = words[begin:words.index("&&", begin)]
    words = [objects.get(word, word) for word in words]
    words[words.index("-o") + 1] = str(output)
    at = words.index(str(output)) + 1
    subprocess.run(words[:at] + list(more) + words[at:], cwd=build, check=True)


def plant(build, folder, bug):
    """Links the library and the master with the bug. Returns the programs of an episode."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    objects = {}
    for source, text in audit.planted(audit.ROOT, bug).items():
        objects.update(compile_again(build, folder, source, text))
    programs = chaos.find_programs(build)
    for command in commands_of(build, "tests/chaos/chaos_peer"):
        if " -shared " in command:
            link(build, command, objects, folder / "libpccl.so.1")
    for command in commands_of(build, "tools/pccl"):
        if " -o tools/pccl " in command:
            link(build, command, objects, folder / "pccl-master", objects.values())
    programs["master"] = str(folder / "pccl-master")
    return programs


def hunt(folder, programs, kinds, limit_s):
    """Plays episodes. Returns (the first violation of one of these kinds or None, episodes, seconds)."""
    dice, start, episodes = random.Random(1), time.monotonic(), 0
    while time.monotonic() < start + limit_s:
        episodes += 1
        where = folder / str(episodes)
        episode = chaos.Episode(dice.randrange(1 << 31), EPISODE_S, 6, where, programs)
        episode.play()
        found = [violation for violation in episode.violations if violation.startswith(tuple(kinds))]
        if found:
            return found[0], episodes, time.monotonic() - start
        shutil.rmtree(where)
    return None, episodes, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=audit.ROOT / "build" / "default")
    parser.add_argument("--only", action="append", metavar="NAME", help="plant only this bug (may be given again)")
    parser.add_argument("--clean", action="store_true", help="first the same without a bug, which must find nothing")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        sys.exit(chaos.SKIPPED)
    chaos.exit_on_sigterm()
    chaos.CALL_LIMIT_S = chaos.QUIET_LIMIT_S = HANG_S
    build, out = options.build.resolve(), options.build.resolve().parent / "chaos_planted"
    good = True
    if options.clean:
        found, episodes, seconds = hunt(out / "clean", chaos.find_programs(build), [""], LIMIT_S)
        good = found is None
        result = "ok" if good else "FAILED"
        print(f"{result:6} nothing planted: {episodes} episodes, {seconds:.0f} s: {found}", flush=True)
    for bug in BUGS:
        if options.only and bug.name not in options.only:
            continue
        programs = plant(build, out / bug.name, bug)
        os.environ["LD_LIBRARY_PATH"] = str(out / bug.name)
        found, episodes, seconds = hunt(out / bug.name, programs, bug.kinds, LIMIT_S)
        good = good and found is not None
        words = (found or f"NOT found in {episodes} episodes")[:300]
        print(f"{'ok' if found else 'FAILED':6} {bug.name:44} {seconds:4.0f} s  {words}", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
