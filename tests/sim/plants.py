"""The bugs that audit.py plants: what the scenarios of docs/PROTOCOL.md warn of, and more of that kind.

Each: name, edits (file, text that is there exactly once, what replaces it), the codes of which one must be what a seed fails with,
and why the rule is there. `scenarios` must fail as well. Where a shallow checker would see the mistake at its first step,
the plant blinds that checker, so that the audit shows the deep one working.
"""
import collections

# last: the last seed to be tried, if it needs more than the others; options: of the simulator
Bug = collections.namedtuple("Bug", "name edits seeds why scenarios last options", defaults=((), 0, []))

# ---- pieces that several plants need ----

BLIND_USES = ["--mute-uses"]  # uses count up by one: that looks at names, the others at what the names are for
# Blinds the check that nobody who was removed comes back.
NO_GONE_CHECK = ("tests/sim/check_members.c", "        check_gone(sim, peer);\n", "")
# A peer that reports after the recovery is put back into its ring.
TAKE_BACK = [
    ("src/master/recovery.c", "void pccl_master_resume_received(", """static void take_back(struct pccl_master *m, struct pccl_remote *late)
{
    struct pccl_group *group = pccl_master_group(m, late->group_number, true);
    if (group == NULL || !pccl_master_join_ring(m, group, late))
        return;
    bool missed = late->report->fields.joint < m->rounds[PCCL_ROUND_UPDATE];
    struct pccl_member added = {.peer = late->id, .group = late->group_number};
    struct pccl_text why;
    pccl_text_format(&why, "it came late");
    late->decision_known = group->decisions;
    pccl_master_next_epoch(m, &added, 1, NULL, 0, &why);
    if (missed)
        pccl_master_answer_round(m, late, PCCL_ROUND_UPDATE);
    struct pccl_member *members = pccl_master_member_list(m);
    struct pccl_msg_epoch_change change = {.epoch = m->epoch, .full = 1, .added = members, .added_count = m->member_count,
                                           .words = pccl_bytes_of_text(&why)};
    group->changed = true;
    pccl_master_send_epoch(m, late, &change);
    group->changed = false;
    pccl_release(&m->memory, members, m->member_count * sizeof *members);
    struct pccl_msg msg = {.type = PCCL_MSG_recovered, .as.recovered = {.inc = m->inc + 1, .decisions = group->decisions}};
    pccl_master_send(m, late, &msg, 0);
    pccl_master_advance_stable(m, group);
    pccl_master_free_report(m, late);
}

void pccl_master_resume_received("""),
    ("src/master/recovery.c", "PCCL_LINK_REFUSED);\n        pccl_master_try_recover(m);",
     "PCCL_LINK_REFUSED);\n        if (!m->recovering)\n            take_back(m, from);\n        else\n"
     "            pccl_master_try_recover(m);"),
]

PLANTS = [
    # ---- the five that the protocol was written against ----
    Bug("name_counts_launches_per_view",
        [("src/peer/operations.c", ".use = use->launches};",
          ".use = ((p->view.inc * 31337u + (uint32_t)p->view.number) << 8) + use->launches};"),
         ("src/peer/view.c", "        p->view = change->epoch;\n",
          "        p->view = change->epoch;\n        pccl_peer_change_era(p);\n")],
        ("I3", "I2", "I6"), "F1: a step that one caller drops is paired with the next step of another",
        ["f1-name-without-view"], options=BLIND_USES),
    Bug("no_tombstones",
        [("src/peer/operations.c", "        tombstone(p, outcome, words);\n", "        return;\n")],
        ("I12", "I2", "I6"), "F2: who launches an aborted instance later waits for ever",
        ["f1-name-without-view", "f2-tombstone"]),
    Bug("majority_recovery_takes_latecomers_back",
        TAKE_BACK + [
            ("src/master/recovery.c", "    if (here + dead == count)\n", "    if (here + dead == count || 2 * here > count)\n"),
            ("src/master/recovery.c", "        else if (!has_reported(remote))\n", "        else if (false)\n"),
            ("src/master/recovery.c", "        if (m->remotes[i]->state == PCCL_REMOTE_RESUMING)\n            pccl_master_remove(",
             "        if (m->remotes[i]->state == PCCL_REMOTE_RESUMING && has_reported(m->remotes[i]))\n"
             "            pccl_master_remove("),
            ("src/master/recovery.c", "        pccl_master_free_report(m, m->remotes[i]);\n",
             "        if (m->remotes[i]->group != NULL)\n            pccl_master_free_report(m, m->remotes[i]);\n"),
            ("src/master/admission.c", "    if ((same && !m->recovering) ||", "    if ("),
            NO_GONE_CHECK],
        ("I2",), "F6: an outcome that only the latecomer knew was decided anew without it", ["f6-all-report"]),
    Bug("view_before_commits",
        [("src/master/operations.c", "        if (all && any)\n            pccl_master_commit(m, group, op);",
          "        if (all && any)\n            op->world = op->part_count; /* to be committed after the view */"),
         ("src/master/operations.c", "        if (!op->decided)\n            free_operation(m, group, op);",
          "        if (!op->decided && op->world == 0)\n            free_operation(m, group, op);"),
         ("src/master/operations.c", "/* ---- what peers say ---- */", """void commit_late(struct pccl_master *m, struct pccl_group *group)
{
    for (struct pccl_operation *op = group->oldest, *last = group->newest, *next; op != NULL; op = next) {
        next = op == last ? NULL : op->newer;
        if (!op->decided && op->world != 0)
            pccl_master_commit(m, group, op);
    }
}
"""),
         ("src/master/membership.c", "        pccl_master_next_epoch(m, NULL, 0, removed, removed_count, &why);",
          "        pccl_master_next_epoch(m, NULL, 0, removed, removed_count, &why);\n"
          "    void commit_late(struct pccl_master *, struct pccl_group *);\n"
          "    for (uint32_t i = 0; i < m->group_count; i++)\n        commit_late(m, m->groups[i]);")],
        ("I5", "I2"), "F12: some fail by the view what others are told is committed", ["f12-commit-or-departure"]),
    Bug("tiny_under_the_bulk_rule",
        [("src/master/operations.c", "op->decided || op->tiny || op->done_count", "op->decided || op->done_count"),
         ("src/master/operations.c", "        parts[i] = op->parts[i].payload;",
          "        if (op->parts[i].payload != NULL)\n            parts[given++] = op->parts[i].payload;"),
         ("src/master/operations.c", "parts, op->part_count, (size_t)", "parts, given, (size_t)"),
         ("src/master/operations.c", "    bool ok = parts != NULL && op->result != NULL;\n",
          "    bool ok = parts != NULL && op->result != NULL;\n    uint32_t given = 0;\n")],
        ("I3", "I5"), "F15: the result lacks the contribution of the one who died"),

    # ---- sessions ----
    Bug("duplicates_are_taken",
        [("src/wire/session.c", "    if (*gap || sequence <= session->received)\n        return false;",
          "    if (*gap)\n        return false;")],
        ("PEACE", "I1", "I2"), "R3: what is sent again after a reconnect counts twice"),
    Bug("tail_is_not_resent",
        [("src/master/admission.c", "        m->effects.send(m->effects.context, conn, frame.data, frame.length);\n", "        ;\n")],
        ("PEACE", "I12"), "F5: a commit that was in the broken connection never arrives"),
    Bug("tail_is_not_resent_by_the_peer",
        [("src/peer/control.c", "        if (take_acknowledgement(p, ok->received))\n            resend_tail(p);",
          "        (void)take_acknowledgement(p, ok->received);\n        (void)resend_tail;")],
        ("PEACE", "I12"), "F5: a DONE that was in the broken connection never arrives", ["f5-session"]),

    # ---- operations ----
    Bug("done_of_an_old_view_counts",
        [("src/master/operations.c", "    if (order < 0)\n        return;", "    if (false)\n        return;")],
        ("I5", "I3"), "R6.5: members of different views are reduced together"),
    Bug("one_done_too_few",
        [("src/master/operations.c", "op->done_count == op->part_count)\n        pccl_master_commit(",
          "op->done_count + (op->part_count > 2 && !op->tiny) == op->part_count)\n        pccl_master_commit(")],
        ("I5", "I3"), "R6.1: committed although one member has not finished"),
    Bug("view_does_not_abort_for_all",
        [("src/master/operations.c", "i < ack->instances_count && !from->departing", "i < 0 && !from->departing")],
        ("I12", "I2", "I6"), "R6.4: who launches later what a view has killed waits for ever", ["f1-name-without-view"]),
    Bug("class_before_the_view_is_known",
        [("src/master/operations.c", "class != PCCL_CLASS_PEER_LOST && !is_view_known(group)", "false")],
        ("I2",), "R5.4: two members fail the same operation for different reasons, and only one retries"),
    Bug("deadline_ends_it_alone",
        [("src/peer/operations.c", "            pccl_peer_op_abort(p, p->now_us, op, PCCL_CLASS_DEADLINE);",
          "        {\n            struct pccl_text words = {0};\n            pccl_peer_op_abort(p, p->now_us, op, PCCL_CLASS_DEADLINE);\n"
          "            decide(p, op, PCCL_CLASS_DEADLINE, &words);\n        }")],
        ("I2",), "F18: it fails here and is committed for the others", ["f18-deadline-and-commit"]),
    Bug("views_of_all_groups_move",
        [("src/master/membership.c", "        if (!group->changed)\n            continue;\n", "        group->changed = true;\n")],
        ("I8",), "F3: a death in one group aborts the operations of all", ["f3-groups"]),
    Bug("outcome_forgotten_when_released",
        [("src/peer/operations.c", " && op->confirmed && op->decision <= p->stable;", " && op->confirmed;")],
        ("I2", "I12", "I5", "I6", "PEACE"), "R2.3: after a restart of the master nobody knows what was committed"),
    Bug("stable_is_what_one_member_knows",
        [("src/master/operations.c", "    uint64_t known = group->decisions;", "    uint64_t known = 0;"),
         ("src/master/operations.c", "        known = pccl_min_u64(known, group->ring[i]->decision_known);",
          "        known = pccl_max_u64(known, group->ring[i]->decision_known);")],
        ("I2", "I12", "I5", "I6", "PEACE"), "R2.3: forgotten while a member has not heard of it"),

    # ---- eras and rounds ----
    Bug("counters_survive_the_era",
        [("src/peer/operations.c", "/* PROTOCOL 1.5, 2.1: counters, outcomes and tombstones end with their era. Everything was quiet, "
          "so nothing is held. */\nvoid pccl_peer_change_era(struct pccl_peer *p)\n{",
          "void pccl_peer_change_era(struct pccl_peer *p)\n{\n    forget_what_may_be(p);\n    return;")],
        ("I12", "I11"), "F20: the uses of members and newcomers do not line up", ["f20-counters"],
        options=BLIND_USES),
    Bug("era_forgets_nothing",
        [("src/peer/operations.c", "    if (!is_current(p, &op->instance) || p->state == PCCL_PEER_OVER)\n        return true;",
          "    if (p->state == PCCL_PEER_OVER)\n        return true;")],
        ("I11",), "I11: tombstones are kept for ever"),
    Bug("votes_without_round_numbers",
        [("src/master/rounds.c", "    if (round + 1 == m->rounds[kind]) {", "    if (false) {"),
         ("src/master/rounds.c", "    if (round != m->rounds[kind]) {", "    if (false) {"),
         ("src/master/recovery.c", "    tell_missed_rounds(m);\n", ""),
         ("src/peer/rounds.c", "    if (round->round < p->rounds[kind])\n        return;", "    if (false)\n        return;"),
         ("src/peer/rounds.c", "    if (round->round > p->rounds[kind] || !call->outstanding) {",
          "    if (!call->outstanding) {")],
        ("I7", "I2", "R8"), "F10: a vote for the round before is paired with one for the next", ["f8-epoch-content"]),
    Bug("round_before_all_have_voted",
        [("src/master/rounds.c", "if (m->remotes[i]->state == PCCL_REMOTE_MEMBER && !m->remotes[i]->votes[kind])",
          "if (m->remotes[i]->state == PCCL_REMOTE_MEMBER && m->remotes[i]->conn != 0 && !m->remotes[i]->votes[kind])")],
        ("I7", "I2", "PEACE"), "R9.3: a member in grace is waited for"),
    Bug("attributes_are_live",
        [("src/peer/peer.c", "{ return p->attributes; }",
          "{ return p->state == PCCL_PEER_MEMBER ? pccl_peer_live_attributes(p) : p->attributes; }")],
        ("R8",), "R8: two callers see different worlds after the same call"),

    # ---- membership and rings ----
    Bug("ring_names_a_member_twice",
        [("src/master/membership.c", "        ids[i] = group->ring[i]->id;", "        ids[i] = group->ring[i == 3 ? 1 : i]->id;")],
        ("I1",), "I1: a ring is a permutation of the group"),
    Bug("expelled_peer_is_taken_back",
        TAKE_BACK + [
            ("src/master/admission.c", "    else if (hello->boot == m->config.boot)\n        turn_away(",
             "    else if (hello->boot == m->config.boot && m->founded && !m->recovering && !pccl_id_is_zero(&hello->lineage) &&\n"
             "             pccl_id_equal(&hello->lineage, &m->lineage))\n        come_in(m, stranger,\n"
             "                pccl_master_add_remote(m, hello, PCCL_REMOTE_RESUMING), PCCL_HELLO_RESUME);\n"
             "    else if (hello->boot == m->config.boot)\n        turn_away("),
            ],
        ("I9",), "I9: who was removed is never a member again"),
    Bug("standstill_is_not_forgiven",
        [("src/master/master.c", "        forgive_standstill(m, now_us - due_us);", "        (void)due_us;")],
        ("R9",), "F21: a master that was stopped removes everybody", ["f21-standstill"]),
    Bug("a_broken_link_kills",
        [("src/master/links.c", "    if (to->conn == 0 && pccl_master_known_dead(m, &to->id, m->recovering)) {",
          "    if (pccl_master_known_dead(m, &to->id, m->recovering)) {")],
        ("R9",), "R9.2: a link is only the second witness"),
    Bug("a_broken_control_connection_kills",
        [("src/master/links.c", "    if (pccl_master_known_dead(m, &remote->id, false))\n", "    if (true)\n")],
        (), "F4: a control connection is only the first witness", ["f4-two-witnesses", "f5-session"]),

    # ---- restart of the master ----
    Bug("rounds_after_outcomes",
        [("src/master/recovery.c", "    tell_missed_rounds(m);\n    for", "    for"),
         ("src/master/recovery.c", "    tell_recovered(m);\n    pccl_master_say", "    tell_missed_rounds(m);\n    tell_recovered(m);\n    pccl_master_say")],
        ("I2", "I12", "I7", "I6", "PEACE"), "R12.4: outcomes of the new era reach a peer of the old one"),
    Bug("recovered_without_the_missing",
        [("src/master/recovery.c", " && group->ring_count == old_ring_count;", ";")],
        ("I3", "I5"), "F15: the dead member's contribution is not in what a restarted master computes",
        ["recover-then-crash"]),
    Bug("reported_outcomes_are_ignored",
        [("src/master/recovery.c", "    merge_reports(m, true);\n", "")],
        ("I2", "I12", "PEACE"), "F7: any reported outcome wins"),
    Bug("any_report_is_law",
        [("src/master/recovery.c", """            (best == NULL || pccl_epoch_compare(&remote->report->fields.epoch, &best->report->fields.epoch) > 0))
            best = remote;""", "            best == NULL)\n            best = remote;")],
        ("I1", "I2", "I9", "PEACE"), "F8: what one member has seen of the highest epoch counts", ["f8-epoch-content"]),
    Bug("stable_of_another_boot",
        [("src/peer/operations.c", "    if (p->resuming || stable <= p->stable)", "    if (stable <= p->stable)")],
        ("I2", "I3", "I6", "I12", "PEACE"), "As built: outcomes are numbered anew in each boot"),
    Bug("older_run_is_refused",
        [("src/master/admission.c", "    if (!same && m->founded && !(m->founded_by_newcomer && young)) {",
          "    if (!same && m->founded) {")],
        (), "F9: a newcomer that is first at a restarted master costs the run", ["f9-newcomer-first"]),
    Bug("hello_acknowledges",
        [("src/master/admission.c", "    if (received < remote->session.acknowledged || received > remote->session.sent) {",
          "    bool invalid = false;\n    pccl_master_note_known(m, remote, pccl_session_acknowledge(&remote->session, received, "
          "&invalid));\n    if (invalid) {")],
        ("PEACE",), "As built: outcomes are forgotten before the peer's older words about them have come", last=20000),
    Bug("recoveries_number_alike",
        [("src/master/recovery.c", "INC_SPREAD = 4096", "INC_SPREAD = 1")],
        ("I1", "I9"), "12.4: two recoveries that do not know of each other make the same epoch", last=60000),
    Bug("ended_run_is_resumed",
        [("src/master/admission.c", "pccl_master_is_over(m, &hello->lineage)", "false")],
        ("I1", "I9", "I2", "PEACE"), "As built: a run that ended is over", last=20000),

    # ---- machines ----
    Bug("expelled_goes_on",
        [("src/peer/control.c", "    else if (p->state == PCCL_PEER_MEMBER)\n        pccl_peer_give_up(p, PCCL_EXPELLED,",
          "    else if (p->state == PCCL_PEER_MEMBER)\n        return;\n    else if (p->state == PCCL_PEER_OVER)\n"
          "        pccl_peer_give_up(p, PCCL_EXPELLED,"),
         ("src/master/admission.c", "    else if (hello->boot == m->config.boot)\n", "    else if (false)\n"),
         ("src/master/admission.c", "    if ((same && !m->recovering) ||", "    if (")],
        ("I1", "I2", "I9", "I12", "PEACE"), "I9: a peer that was removed is out"),
    Bug("a_timer_spins",
        [("src/peer/control.c", "    if (!p->greeted)\n        return;\n    if (p->now_us >= p->spoke_us + heartbeat_us)",
          "    if (p->greeted && p->now_us >= p->spoke_us + heartbeat_us)")],
        ("I12",), "I12: no process spins"),
    Bug("payload_leaks",
        [("src/peer/operations.c", "    pccl_release(&p->memory, op->payload, op->payload_capacity);\n    pccl_release(&p->memory, op,",
          "    pccl_release(&p->memory, op,")],
        ("MEMORY",), "what a machine allocates it gives back"),

    # ---- waiting ----
    Bug("nobody_is_named",
        [("src/peer/where.c", "    pccl_peer_send(p, &msg);\n", "    (void)msg;\n")],
        ("I10",), "I10: who waits long is told for whom", last=20000),
]
