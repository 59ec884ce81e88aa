"""The bugs that audit.py plants: what the scenarios of docs/PROTOCOL.md warn of, and more of that kind.

Each: why the rule is there; the codes of which one must be what a seed fails with; scenarios that must fail; and the
edits: file, a text that is there exactly once (white space aside), what replaces it. Where a shallow checker would see
the mistake at its first step, the plant blinds that checker, so that the audit shows the deep one working.
"""
import collections

# last: the last seed to be tried, if it needs more than the others; options: of the simulator
Bug = collections.namedtuple("Bug", "name why seeds scenarios edits last options", defaults=(0, []))

# ---- pieces that several plants need ----

BLIND_USES = ["--mute-uses"]  # uses count up by one: that looks at names, the others at what the names are for
# Blinds the checks that nobody who was removed comes back.
BLIND_GONE = [
    ("tests/sim/check_members.c", "check_gone(sim, peer);", ""),
    ("tests/sim/check_members.c", "sim_check_roll(sim, master);", ""),
]
# A peer that reports after the recovery is put back into its ring.
TAKE_BACK = [
    ("src/master/recovery.c",
     "void pccl_master_resume_received(",
     """
static void take_back(struct pccl_master *m, struct pccl_remote *late)
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
    uint32_t count = m->member_count;
    struct pccl_member *members = pccl_master_member_list(m);
    struct pccl_msg_epoch_change change = {.epoch = m->epoch, .full = 1, .added = members, .added_count = count};
    group->changed = true;
    pccl_master_send_epoch(m, late, &change);
    group->changed = false;
    pccl_release(&m->memory, members, count * sizeof *members);
    struct pccl_msg msg = {.type = PCCL_MSG_recovered,
                           .as.recovered = {.inc = m->inc + 1, .decisions = group->decisions}};
    pccl_master_send(m, late, &msg, 0);
    pccl_master_advance_stable(m, group);
    pccl_master_free_report(m, late);
}

void pccl_master_resume_received("""),
    ("src/master/recovery.c",
     "PCCL_LINK_REFUSED); pccl_master_try_recover(m);",
     "PCCL_LINK_REFUSED); if (!m->recovering) take_back(m, from); else pccl_master_try_recover(m);"),
]

PLANTS = [
    # ---- the five that the protocol was written against ----
    Bug("name_counts_launches_per_view",
        "F1: a step that one caller drops is paired with the next step of another",
        ["I3", "I2", "I6"], ["f1-name-without-view"],
        [
            ("src/peer/operations.c",
             ".use = use->launches};",
             ".use = ((p->view.inc * 31337u + (uint32_t)p->view.number) << 8) + use->launches};"),
            ("src/peer/view.c",
             "p->view = change->epoch;",
             "p->view = change->epoch; pccl_peer_change_era(p);"),
        ], options=BLIND_USES),
    Bug("no_tombstones",
        "F2: who launches an aborted instance later waits for ever",
        ["I12", "I2", "I6"], ["f1-name-without-view", "f2-tombstone"],
        [
            ("src/peer/operations.c",
             "tombstone(p, outcome, words);",
             "return;"),
        ]),
    Bug("majority_recovery_takes_latecomers_back",
        "F6: an outcome that only the latecomer knew was decided anew without it",
        ["I2"], ["f6-all-report"],
        TAKE_BACK + [
            ("src/master/recovery.c",
             "if (here + dead == count)",
             "if (here + dead == count || 2 * here > count)"),
            ("src/master/recovery.c",
             "else if (!has_reported(remote))",
             "else if (false)"),
            ("src/master/recovery.c",
             "if (m->remotes[i]->state == PCCL_REMOTE_RESUMING) pccl_master_remove(",
             "if (m->remotes[i]->state == PCCL_REMOTE_RESUMING && has_reported(m->remotes[i])) pccl_master_remove("),
            ("src/master/recovery.c",
             "pccl_master_free_report(m, m->remotes[i]);",
             "if (m->remotes[i]->group != NULL) pccl_master_free_report(m, m->remotes[i]);"),
            ("src/master/admission.c",
             "if ((same && !m->recovering) ||",
             "if ("),
        ] + BLIND_GONE),
    Bug("view_before_commits",
        "F12: some fail by the view what others are told is committed",
        ["I5", "I2"], ["f12-commit-or-departure"],
        [
            ("src/master/operations.c",
             "if (all && any) pccl_master_commit(m, group, op);",
             "if (all && any) op->world = op->part_count; /* to be committed after the view */"),
            ("src/master/operations.c",
             "if (!op->decided) free_operation(m, group, op);",
             "if (!op->decided && op->world == 0) free_operation(m, group, op);"),
            ("src/master/operations.c",
             "/* ---- what peers say ---- */",
             """
void commit_late(struct pccl_master *m, struct pccl_group *group)
{
    for (struct pccl_operation *op = group->oldest, *last = group->newest, *next; op != NULL; op = next) {
        next = op == last ? NULL : op->newer;
        if (!op->decided && op->world != 0)
            pccl_master_commit(m, group, op);
    }
}
"""),
            ("src/master/membership.c",
             "pccl_master_next_epoch(m, NULL, 0, removed, removed_count, &why);",
             "pccl_master_next_epoch(m, NULL, 0, removed, removed_count, &why); void commit_late(struct pccl_master "
             "*, struct pccl_group *); for (uint32_t i = 0; i < m->group_count; i++) commit_late(m, m->groups[i]);"),
        ]),
    Bug("tiny_under_the_bulk_rule",
        "F15: the result lacks the contribution of the one who died",
        ["I3", "I5"], [],
        [
            ("src/master/operations.c",
             "op->decided || op->tiny || op->done_count",
             "op->decided || op->done_count"),
            ("src/master/operations.c",
             "parts[i] = op->parts[i].payload;",
             "if (op->parts[i].payload != NULL) parts[given++] = op->parts[i].payload;"),
            ("src/master/operations.c",
             "parts, op->part_count, (size_t)",
             "parts, given, (size_t)"),
            ("src/master/operations.c",
             "bool ok = parts != NULL && op->result != NULL;",
             "bool ok = parts != NULL && op->result != NULL; uint32_t given = 0;"),
        ]),

    # ---- sessions ----
    Bug("duplicates_are_taken",
        "R3: what is sent again after a reconnect counts twice",
        ["PEACE", "I1", "I2"], [],
        [
            ("src/wire/session.c",
             "if (*gap || sequence <= session->received) return false;",
             "if (*gap) return false;"),
        ]),
    Bug("tail_is_not_resent",
        "F5: a commit that was in the broken connection never arrives",
        ["PEACE", "I12"], [],
        [
            ("src/master/admission.c",
             "m->effects.send(m->effects.context, conn, frame.data, frame.length);",
             ";"),
        ]),
    Bug("tail_is_not_resent_by_the_peer",
        "F5: a DONE that was in the broken connection never arrives",
        ["PEACE", "I12"], ["f5-session"],
        [
            ("src/peer/control.c",
             "if (take_acknowledgement(p, ok->received)) resend_tail(p);",
             "(void)take_acknowledgement(p, ok->received); (void)resend_tail;"),
        ]),

    # ---- operations ----
    Bug("done_of_an_old_view_counts",
        "R6.5: members of different views are reduced together",
        ["I5", "I3"], [],
        [
            ("src/master/operations.c",
             "if (order < 0) return;",
             "if (false) return;"),
        ]),
    Bug("one_done_too_few",
        "R6.1: committed although one member has not finished",
        ["I5", "I3"], [],
        [
            ("src/master/operations.c",
             "op->done_count == op->part_count) pccl_master_commit(",
             "op->done_count + (op->part_count > 2 && !op->tiny) == op->part_count) pccl_master_commit("),
        ]),
    Bug("view_does_not_abort_for_all",
        "R6.4: who launches later what a view has killed waits for ever",
        ["I12", "I2", "I6"], ["f1-name-without-view"],
        [
            ("src/master/operations.c",
             "i < ack->instances_count && !from->departing",
             "i < 0 && !from->departing"),
        ]),
    Bug("class_before_the_view_is_known",
        "R5.4: two members fail the same operation for different reasons, and only one retries",
        ["I2"], [],
        [
            ("src/master/operations.c",
             "class != PCCL_CLASS_PEER_LOST && !is_view_known(group)",
             "false"),
        ]),
    Bug("deadline_ends_it_alone",
        "F18: it fails here and is committed for the others",
        ["I2"], ["f18-deadline-and-commit"],
        [
            ("src/peer/operations.c",
             "pccl_peer_op_abort(p, p->now_us, op, PCCL_CLASS_DEADLINE);",
             "{ struct pccl_text words = {0}; pccl_peer_op_abort(p, p->now_us, op, PCCL_CLASS_DEADLINE); decide(p, "
             "op, PCCL_CLASS_DEADLINE, &words); }"),
        ]),
    Bug("views_of_all_groups_move",
        "F3: a death in one group aborts the operations of all",
        ["I8"], ["f3-groups"],
        [
            ("src/master/membership.c",
             "if (!group->changed) continue;",
             "group->changed = true;"),
        ]),
    Bug("outcome_forgotten_when_released",
        "R2.3: after a restart of the master nobody knows what was committed",
        ["I2", "I12", "I5", "I6", "PEACE"], [],
        [
            ("src/peer/operations.c",
             "&& op->confirmed && op->decision <= p->stable;",
             "&& op->confirmed;"),
        ]),
    Bug("stable_is_what_one_member_knows",
        "R2.3: forgotten while a member has not heard of it",
        ["I2", "I12", "I5", "I6", "PEACE"], [],
        [
            ("src/master/operations.c",
             "uint64_t known = group->decisions;",
             "uint64_t known = 0;"),
            ("src/master/operations.c",
             "known = pccl_min_u64(known, group->ring[i]->decision_known);",
             "known = pccl_max_u64(known, group->ring[i]->decision_known);"),
        ]),

    # ---- eras and rounds ----
    Bug("counters_survive_the_era",
        "F20: the uses of members and newcomers do not line up",
        ["I12", "I11"], ["f20-counters"],
        [
            ("src/peer/operations.c",
             "/* PROTOCOL 1.5, 2.1: counters, outcomes and tombstones end with their era. Everything was quiet, so "
             "nothing is held. */ void pccl_peer_change_era(struct pccl_peer *p) {",
             "void pccl_peer_change_era(struct pccl_peer *p) { forget_what_may_be(p); return;"),
        ], options=BLIND_USES),
    Bug("era_forgets_nothing",
        "I11: tombstones are kept for ever",
        ["I11"], [],
        [
            ("src/peer/operations.c",
             "if (!is_current(p, &op->instance) || p->state == PCCL_PEER_OVER) return true;",
             "if (p->state == PCCL_PEER_OVER) return true;"),
        ]),
    Bug("votes_without_round_numbers",
        "F10: a vote for the round before is paired with one for the next",
        ["I7", "I2", "R8"], ["f8-epoch-content"],
        [
            ("src/master/rounds.c",
             "if (round + 1 == m->rounds[kind]) {",
             "if (false) {"),
            ("src/master/rounds.c",
             "if (round != m->rounds[kind]) {",
             "if (false) {"),
            ("src/master/recovery.c",
             "tell_missed_rounds(m);",
             ""),
            ("src/peer/rounds.c",
             "if (round->round < p->rounds[kind]) return;",
             "if (false) return;"),
            ("src/peer/rounds.c",
             "if (round->round > p->rounds[kind] || !call->outstanding) {",
             "if (!call->outstanding) {"),
        ]),
    Bug("round_before_all_have_voted",
        "R9.3: a member in grace is waited for",
        ["I7", "I2", "PEACE"], [],
        [
            ("src/master/rounds.c",
             "if (m->remotes[i]->state == PCCL_REMOTE_MEMBER && !m->remotes[i]->votes[kind])",
             "if (m->remotes[i]->state == PCCL_REMOTE_MEMBER && m->remotes[i]->conn != 0 && "
             "!m->remotes[i]->votes[kind])"),
        ]),
    Bug("attributes_are_live",
        "R8: two callers see different worlds after the same call",
        ["R8"], [],
        [
            ("src/peer/peer.c",
             "{ return p->attributes; }",
             "{ return p->state == PCCL_PEER_MEMBER ? pccl_peer_live_attributes(p) : p->attributes; }"),
        ]),

    # ---- membership and rings ----
    Bug("ring_names_a_member_twice",
        "I1: a ring is a permutation of the group",
        ["I1"], [],
        [
            ("src/master/membership.c",
             "ids[i] = group->ring[i]->id;",
             "ids[i] = group->ring[i == 3 ? 1 : i]->id;"),
        ]),
    Bug("expelled_peer_is_taken_back",
        "I9: who was removed is never a member again",
        ["I9"], [],
        TAKE_BACK + [
            ("src/master/admission.c",
             "else if (hello->boot == m->config.boot) turn_away(",
             "else if (hello->boot == m->config.boot && m->founded && !m->recovering && "
             "!pccl_id_is_zero(&hello->lineage) && pccl_id_equal(&hello->lineage, &m->lineage)) come_in(m, stranger,"
             " pccl_master_add_remote(m, hello, PCCL_REMOTE_RESUMING), PCCL_HELLO_RESUME); else if (hello->boot == "
             "m->config.boot) turn_away("),
        ]),
    Bug("standstill_is_not_forgiven",
        "F21: a master that was stopped removes everybody",
        ["R9"], ["f21-standstill"],
        [
            ("src/master/master.c",
             "forgive_standstill(m, now_us - due_us); return true;",
             "return false;"),
        ]),
    Bug("a_broken_link_kills",
        "R9.2: a link is only the second witness",
        ["R9"], [],
        [
            ("src/master/links.c",
             "if (to->conn == 0 && pccl_master_known_dead(m, &to->id, m->recovering)) {",
             "if (pccl_master_known_dead(m, &to->id, m->recovering)) {"),
        ]),
    Bug("a_broken_control_connection_kills",
        "F4: a control connection is only the first witness",
        [], ["f4-two-witnesses", "f5-session"],
        [
            ("src/master/links.c",
             "if (pccl_master_known_dead(m, &remote->id, false))",
             "if (true)"),
        ]),

    # ---- restart of the master ----
    Bug("rounds_after_outcomes",
        "R12.4: outcomes of the new era reach a peer of the old one",
        ["I2", "I12", "I7", "I6", "PEACE"], [],
        [
            ("src/master/recovery.c",
             "tell_missed_rounds(m); for",
             "for"),
            ("src/master/recovery.c",
             "tell_recovered(m); pccl_master_say",
             "tell_missed_rounds(m); tell_recovered(m); pccl_master_say"),
        ], last=20000),
    Bug("recovered_without_the_missing",
        "F15: the dead member's contribution is not in what a restarted master computes",
        ["I3", "I5"], ["recover-then-crash"],
        [
            ("src/master/recovery.c",
             "&& group->ring_count == old_ring_count;",
             ";"),
        ]),
    Bug("reported_outcomes_are_ignored",
        "F7: any reported outcome wins",
        ["I2", "I12", "PEACE"], [],
        [
            ("src/master/recovery.c",
             "merge_reports(m, true);",
             ""),
        ]),
    Bug("any_report_is_law",
        "F8: what one member has seen of the highest epoch counts",
        ["I1", "I2", "I9", "PEACE"], ["recover-then-crash"],
        [
            ("src/master/recovery.c",
             "(best == NULL || pccl_epoch_compare(&remote->report->fields.epoch, &best->report->fields.epoch) >"
             " 0)) best = remote;",
             "best == NULL) best = remote;"),
        ]),
    Bug("older_run_is_refused",
        "F9: a newcomer that is first at a restarted master costs the run",
        [], ["f9-newcomer-first"],
        [
            ("src/master/admission.c",
             "if (!same && m->founded && !(m->founded_by_newcomer && young)) {",
             "if (!same && m->founded) {"),
        ]),
    Bug("hello_acknowledges",
        "As built: outcomes are forgotten before the peer's older words about them have come",
        ["PEACE"], [],
        [
            ("src/master/admission.c",
             "if (received < remote->session.acknowledged || received > remote->session.sent) {",
             "bool invalid = false; pccl_master_note_known(m, remote, pccl_session_acknowledge(&remote->session, "
             "received, &invalid)); if (invalid) {"),
        ], last=20000),
    Bug("recoveries_number_alike",
        "12.4: two recoveries that do not know of each other make the same epoch",
        ["I1", "I9"], [],
        [
            ("src/master/recovery.c",
             "INC_SPREAD = 4096",
             "INC_SPREAD = 1"),
        ], last=20000),
    Bug("ended_run_is_resumed",
        "As built: a run that ended is over",
        [], ["run-over"],
        [
            ("src/master/admission.c",
             "pccl_master_is_over(m, &hello->lineage)",
             "false"),
        ]),

    # ---- machines ----
    Bug("expelled_goes_on",
        "I9: a peer that was removed is out",
        ["I1", "I2", "I9", "I12", "PEACE"], [],
        [
            ("src/peer/control.c",
             "else if (p->state == PCCL_PEER_MEMBER) pccl_peer_give_up(p, PCCL_EXPELLED,",
             "else if (p->state == PCCL_PEER_MEMBER) return; else if (p->state == PCCL_PEER_OVER) "
             "pccl_peer_give_up(p, PCCL_EXPELLED,"),
            ("src/master/admission.c",
             "else if (hello->boot == m->config.boot)",
             "else if (false)"),
            ("src/master/admission.c",
             "if ((same && !m->recovering) ||",
             "if ("),
        ]),
    Bug("a_timer_spins",
        "I12: no process spins",
        ["I12"], [],
        [
            ("src/peer/control.c",
             "if (!p->greeted) return; if (p->now_us >= p->spoke_us + heartbeat_us)",
             "if (p->greeted && p->now_us >= p->spoke_us + heartbeat_us)"),
        ]),
    Bug("payload_leaks",
        "what a machine allocates it gives back",
        ["MEMORY"], [],
        [
            ("src/peer/operations.c",
             "pccl_release(&p->memory, op->payload, op->payload_capacity); pccl_release(&p->memory, op,",
             "pccl_release(&p->memory, op,"),
        ]),

    # ---- waiting ----
    Bug("nobody_is_named",
        "I10: who waits long is told for whom",
        ["I10"], [],
        [
            ("src/peer/where.c",
             "pccl_peer_send(p, &msg);",
             "(void)msg;"),
        ], last=20000),
]
