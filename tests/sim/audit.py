#!/usr/bin/env python3
"""Plants known bugs one after another in a copy of the sources; the simulator must catch each.

A simulator finds only what a checker says. Every row of PLANTS is a mistake that the protocol's rules forbid (most of them are
in docs/PROTOCOL.md, "Why"): edits (file, text, replacement) applied to a copy in build/audit/NAME. The copy is built with
the simulator and run, scenarios first, then seeds, until something fires. First the sources as they are must be clean.

usage: tests/sim/audit.py [--only NAME] [--seeds N] [--build DIR]
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PURE = ["core", "wire", "master", "peer", "kernels", "topology"]
OPS, PEER_OPS = "src/master/operations.c", "src/peer/operations.c"
MEMBERS, RECOVERY, ROUNDS = "src/master/membership.c", "src/master/recovery.c", "src/master/rounds.c"
ADMISSION, LINKS = "src/master/admission.c", "src/master/links.c"

# (name, what is wrong, expected to fire, options, [(file, text, replacement)...])
PLANTS = [
    ("uses-per-view", "the count of launches starts anew with each view, not with each era", "I2 I3 I12 PEACE ASSERT scenario_f1", ["--mute-uses"], [
        (PEER_OPS, "void pccl_peer_view_kills(struct pccl_peer *p, const struct pccl_text *why) {",
         "void pccl_peer_view_kills(struct pccl_peer *p, const struct pccl_text *why) {"
         " for (struct pccl_node *n = pccl_table_first(&p->uses); n != NULL; n = pccl_table_after(&p->uses, n))"
         " PCCL_CONTAINER_OF(n, struct pccl_use, by_tag)->launches = (uint32_t)(p->view.number * 100 + p->view.inc * 7);")]),
    ("no-tombstones", "an abort is not remembered for a launch that comes later", "I6 I12 scenario_f1 scenario_f2", [], [
        (PEER_OPS, "else tombstone(p, outcome, words);", "else (void)tombstone;")]),
    ("majority-takes-latecomers", "a majority recovers at once, and who comes later is taken back", "I1 I2 I3 I5 I9 PEACE scenario_f6", [], [
        (RECOVERY, "if (here + dead == count) return true;", "if (2 * here > count) return true;"),
        (RECOVERY, "pccl_master_try_recover(m); break;",
         "if (!m->recovering && ok) {"
         " struct pccl_group *group = pccl_master_group(m, from->group_number, true);"
         " struct pccl_member back = {.peer = from->id, .group = from->group_number};"
         " struct pccl_text why; pccl_text_format(&why, \"back\");"
         " (void)pccl_master_join_ring(m, group, from);"
         " pccl_master_next_epoch(m, &back, 1, NULL, 0, &why);"
         " struct pccl_member *all = pccl_master_member_list(m);"
         " struct pccl_msg_epoch_change full = {.epoch = m->epoch, .full = 1, .added = all, .added_count = m->member_count};"
         " group->changed = true; pccl_master_send_epoch(m, from, &full); group->changed = false;"
         " pccl_release(&m->memory, all, pccl_max_u64(1, m->member_count) * sizeof *all);"
         " struct pccl_msg told = {.type = PCCL_MSG_recovered, .as.recovered = {.inc = m->inc, .decisions = group->decisions}};"
         " pccl_master_send(m, from, &told, 0); pccl_master_free_report(m, from); pccl_master_advance_stable(m, group); }"
         " pccl_master_try_recover(m); break;"),
        (ADMISSION, "if ((same && !m->recovering) || pccl_master_is_over(m, &hello->lineage)) {",
         "if (pccl_master_is_over(m, &hello->lineage)) {")]),
    ("view-before-commits", "the view without the departed is sent before the commits of what all others had finished",
     "I2 I5 scenario_f12", [], [
        (MEMBERS, "static void settle_once(struct pccl_master *m) { commit_before_view(m);",
         "static void settle_once(struct pccl_master *m) { if (m->departing_count == UINT32_MAX) commit_before_view(m);"),
        (MEMBERS, "pccl_master_drop_undecided(m, group); group->view = m->epoch; pccl_master_want_ring(m, group);",
         "group->view = m->epoch; pccl_master_want_ring(m, group);"),
        (MEMBERS, "for (uint32_t i = 0; i < m->group_count; i++) m->groups[i]->changed = false; } /* ---- departures ---- */",
         "for (uint32_t i = 0; i < m->group_count; i++) { struct pccl_group *group = m->groups[i];"
         " for (struct pccl_operation *op = group->changed ? group->oldest : NULL, *next; op != NULL; op = next) {"
         " next = op->newer; if (!op->decided && !op->tiny && op->done_count >= group->ring_count) pccl_master_commit(m, group, op); }"
         " if (group->changed) pccl_master_drop_undecided(m, group);"
         " group->changed = false; } } /* ---- departures ---- */")]),
    ("tiny-by-bulk-rule", "a tiny operation commits with the payloads of those who remain", "I3 I5", [], [
        (OPS, "if (op->decided || op->tiny || op->done_count == 0)", "if (op->decided || op->done_count == 0)"),
        (OPS, "for (uint32_t i = 0; ok && i < op->part_count; i++) parts[i] = op->parts[i].payload;",
         "uint32_t here = 0; for (uint32_t i = 0; ok && i < op->part_count; i++)"
         " if (op->parts[i].payload != NULL) parts[here++] = op->parts[i].payload;"),
        (OPS, "parts, op->part_count, (size_t)op->descriptor.count", "parts, here, (size_t)op->descriptor.count")]),
    ("duplicates-taken", "a message that came twice is taken twice", "I1 I2 I7 I12 PEACE ASSERT scenario_f5", [], [
        ("src/wire/session.c", "if (*gap || sequence <= session->received) return false; session->received = sequence;",
         "if (*gap) return false; session->received = pccl_max_u64(session->received, sequence);")]),
    ("old-done-counts", "DONE of an operation that was started in an older view counts", "I2 I3 I5", [], [
        (OPS, "if (order < 0) return;", "if (order < -1) return;")]),
    ("votes-without-rounds", "a vote does not say for which round it is", "I2 I7 I12 R8 PEACE scenario_f8 scenario_f10", [], [
        (ROUNDS, "if (round + 1 == m->rounds[kind]) {", "if (round + 1 == 0) {"),
        (ROUNDS, "if (round != m->rounds[kind]) {", "if (round > m->rounds[kind]) {"),
        (RECOVERY, "tell_missed_rounds(m);", "(void)tell_missed_rounds;")]),
    ("era-counters-kept", "use counters are not cleared when the era changes", "I2 I12 I11 PEACE scenario_f20", ["--mute-uses"], [
        (PEER_OPS, "pccl_table_remove(&p->uses, node);"
                   " pccl_release(&p->memory, PCCL_CONTAINER_OF(node, struct pccl_use, by_tag), sizeof(struct pccl_use));"
                   " } forget_what_may_be(p); }", "} forget_what_may_be(p); }")]),
    ("forgotten-too-early", "outcomes are forgotten when they are sent, not when all members have acknowledged them",
     "I2 I3 I6 I12 PEACE scenario_f6 scenario_f15", [], [
        (OPS, "known = pccl_min_u64(known, group->ring[i]->decision_known);", "known = pccl_min_u64(known, group->decisions);")]),
    ("forgotten-while-renumbered", "a resuming peer forgets outcomes by numbers of the boot before", "I2 I3 I6 I12 PEACE", [], [
        (PEER_OPS, "if (p->resuming || stable <= p->stable)", "if (stable <= p->stable)")]),
    ("any-report-is-law", "a restarted master believes the first report instead of that of the highest epoch",
     "I1 I2 I3 I9 I12 PEACE scenario_f8", [], [
        (RECOVERY, "(best == NULL || pccl_epoch_compare(&remote->report->fields.epoch, &best->report->fields.epoch) > 0)) best = remote;",
         "best == NULL) best = remote;")]),
    ("recovery-commits-without-missing", "a restarted master commits what those who are there have finished",
     "I2 PEACE scenario_recover_then_crash", [], [
        (RECOVERY, "op->done_count == group->ring_count && group->ring_count == old_ring_count;",
         "op->done_count == group->ring_count && (!op->tiny || group->ring_count == old_ring_count);")]),
    ("expelled-stays", "a peer that is told that it was removed goes on as if nothing were", "I1 I2 I3 I5 I9 I12 PEACE ASSERT scenario", [], [
        ("src/peer/control.c", "else if (p->state == PCCL_PEER_MEMBER) pccl_peer_give_up(p, PCCL_EXPELLED,",
         "else if (p->state == PCCL_PEER_MEMBER) return; else if (p->state == PCCL_PEER_OVER) pccl_peer_give_up(p, PCCL_EXPELLED,"),
        (ADMISSION, "else if (hello->boot == m->config.boot)", "else if (false)"),
        (ADMISSION, "if ((same && !m->recovering) || pccl_master_is_over(m, &hello->lineage)) {",
         "if (pccl_master_is_over(m, &hello->lineage)) {")]),
    ("no-standstill", "a master that stood still expires everybody", "scenario_f21", [], [
        ("src/master/master.c", "if (m->deadline_us != UINT64_MAX && now_us > due_us + STANDSTILL_US)",
         "if (now_us == UINT64_MAX && now_us > due_us + STANDSTILL_US)")]),
    ("ring-repeats", "the ring of three or more names its first member again", "I1 PEACE scenario", [], [
        (MEMBERS, "ids[i] = group->ring[i]->id; return ids;", "ids[i] = group->ring[i > 1 && i + 1 == group->ring_count ? 0 : i]->id; return ids;")]),
    ("views-of-all-groups", "a change in one group moves the views of all", "I1 I8 scenario_f3", [], [
        (MEMBERS, "bool first_of_inc = m->epoch.inc < m->inc;",
         "bool first_of_inc = m->epoch.inc < m->inc; for (uint32_t i = 0; i < m->group_count; i++) m->groups[i]->changed = true;")]),
    ("view-kills-silently", "the master does not pass on what a view has killed", "I6 I12 scenario_f1", [], [
        (OPS, "else if (!op->decided) pccl_master_abort(m, from->group, op, PCCL_CLASS_PEER_LOST, &words);", "")]),
    ("one-witness", "a broken control connection is enough to remove a peer", "scenario_f4 scenario_f5", [], [
        (LINKS, "if (pccl_master_known_dead(m, &remote->id, false)) pccl_master_remove",
         "if (remote->departing == false) pccl_master_remove")]),
    ("live-attributes", "attributes follow the membership while no call returns", "R8", [], [
        ("src/peer/peer.c", "{ return p->attributes; }", "{ return p->state == PCCL_PEER_MEMBER ? pccl_peer_live_attributes(p) : p->attributes; }")]),
    ("class-by-chance", "an abort with a class of its own does not wait for those who have not taken the view", "I2", [], [
        (OPS, "if (class != PCCL_CLASS_PEER_LOST && !is_view_known(group)) {", "if (class == PCCL_CLASS_NONE && !is_view_known(group)) {")]),
    ("first-newcomer-stays", "an older run does not win against one that a newcomer has begun meanwhile", "scenario_f9 I12", [], [
        (ADMISSION, "if (!same && m->founded && !(m->founded_by_newcomer && young)) {", "if (!same && m->founded) {")]),
    ("heartbeats-spin", "a timer that has passed is armed again for the same time", "I12", [], [
        ("src/peer/control.c", "if (!p->greeted) return; if (p->now_us >= p->spoke_us + heartbeat_us) send_heartbeat(p);",
         "if (p->greeted && p->now_us >= p->spoke_us + heartbeat_us) send_heartbeat(p);")]),
    ("tail-not-resent", "what was unacknowledged is not sent again after a reconnect", "I12 PEACE scenario_f5", [], [
        ("src/peer/control.c", "if (take_acknowledgement(p, ok->received)) resend_tail(p);",
         "if (take_acknowledgement(p, ok->received) && p->state == PCCL_PEER_OVER) resend_tail(p);")]),
    ("leak", "an operation's payload is not given back", "MEMORY", [], [
        (PEER_OPS, "pccl_release(&p->memory, op->payload, op->payload_capacity); pccl_release(&p->memory, op, sizeof *op);",
         "pccl_release(&p->memory, op, sizeof *op);")]),
]


def flexible(text):
    """The text as a pattern in which white space does not matter, nor that of a comment."""
    return re.compile(r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/)*".join(re.escape(token) for token in re.findall(r"/\*.*?\*/|\w+|[^\w\s]", text)))


def plant(source, edits):
    """Applies the edits to the copy; the text that was not found, or None."""
    for file, text, replacement in edits:
        path = source / file
        found = flexible(text).subn(lambda _, r=replacement: r, path.read_text(), count=1)
        if found[1] != 1:
            return f"{file}: {text[:60]}"
        path.write_text(found[0])
    return None


def build(folder, compiler):
    sources = [str(p) for module in PURE for p in sorted((folder / "src" / module).glob("*.c"))]
    sources += [str(p) for p in sorted((folder / "tests/sim").glob("*.c"))]
    program = folder / "sim"
    command = [compiler, "-std=c11", "-O1", "-w", f"-I{folder}/src", f"-I{folder}/include", f"-I{folder}/tests/sim", *sources,
               "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def copy(folder):
    shutil.rmtree(folder, ignore_errors=True)
    for part in ["src", "include", "tests/sim"]:
        shutil.copytree(ROOT / part, folder / part)


def run(program, seeds, options):
    """The first failure that the program reports, and how long that took."""
    began = time.monotonic()
    for arguments in (["--scenario", "all"], ["--seeds", str(seeds)]):
        try:
            done = subprocess.run([str(program), *arguments, *options], capture_output=True, text=True, timeout=900, check=False)
        except subprocess.TimeoutExpired:
            return "hangs", time.monotonic() - began
        if done.returncode != 0:
            lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
            return (lines[0] if lines else f"ended by signal {-done.returncode}"), time.monotonic() - began
    return None, time.monotonic() - began


def is_expected(failure, expected):
    return any(re.search(rf"(: |_){re.escape(word)}|{re.escape(word)}" if word.startswith("scenario") else rf": {re.escape(word)}\b", failure)
               for word in expected.split())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="the names of plants, separated by commas")
    parser.add_argument("--seeds", type=int, default=3000)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/audit")
    parser.add_argument("--cc", default="cc")
    options = parser.parse_args()
    only = options.only.split(",") if options.only else None

    folder = options.build / "clean"
    copy(folder)
    failure, seconds = run(build(folder, options.cc), options.seeds, [])
    print(f"{'as it is':34} {'clean' if failure is None else failure}  ({seconds:.0f} s)", flush=True)
    bad = failure is not None
    missed = 0
    for name, about, expected, flags, edits in PLANTS:
        if only and name not in only:
            continue
        folder = options.build / name
        copy(folder)
        lost = plant(folder, edits)
        if lost:
            print(f"{name:34} NOT PLANTED: no such text in {lost}", flush=True)
            missed += 1
            continue
        failure, seconds = run(build(folder, options.cc), options.seeds, flags)
        caught = failure is not None and is_expected(failure, expected)
        verdict = "caught" if caught else "NOT CAUGHT" if failure is None else "CAUGHT, BUT NOT AS EXPECTED"
        missed += not caught
        print(f"{name:34} {verdict}: {(failure or about)[:150]}  ({seconds:.0f} s)", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(PLANTS) if not only else len(only)} planted, {missed} missed")
    return 1 if bad or missed else 0


if __name__ == "__main__":
    sys.exit(main())
