"""The five that the protocol was written against."""
from .bug import BLIND_GONE, BLIND_USES, TAKE_BACK, Bug

PLANTS = [
    Bug("name_counts_launches_per_view", "F1: a step that one caller drops is paired with the next step of another",
        ["I3", "I2", "I6"], ["f1-name-without-view"],
        [("src/peer/launches.c", "instance.use = use->launches;",
          "instance.use = ((p->view.inc * 31337u + (uint32_t)p->view.number) << 8) + use->launches;"),
         ("src/peer/view.c", "p->view = change->epoch;",
          "p->view = change->epoch; for (struct pccl_table_node *node = pccl_table_first(&p->uses); node != NULL; "
          "node = pccl_table_after(&p->uses, node)) PCCL_CONTAINER_OF(node, struct pccl_use, by_tag)->launches = 0;")],
        options=BLIND_USES),
    Bug("no_tombstones", "F2: who launches an aborted instance later waits for ever",
        ["I12", "I2", "I6"], ["f1-name-without-view", "f2-tombstone"],
        [("src/peer/operations.c", "tombstone(p, outcome, reason);", "return;")]),
    Bug("majority_recovery_takes_latecomers_back",
        "F6: an outcome that only the latecomer knew was decided anew without it",
        ["I2", "ASSERT"], ["f6-all-report"],
        TAKE_BACK + [
            ("src/master/recovery.c",
             "if (here + dead == count)",
             "if (here + dead == count || 2 * here > count)"),
            ("src/master/recovery_rebuild.c",
             "else if (!pccl_master_has_reported(remote))",
             "else if (false)"),
            ("src/master/recovery_rebuild.c",
             "if (m->remotes[i]->state == PCCL_REMOTE_RESUMING) pccl_master_remove(",
             "if (m->remotes[i]->state == PCCL_REMOTE_RESUMING && pccl_master_has_reported(m->remotes[i])) "
             "pccl_master_remove("),
            ("src/master/recovery_rebuild.c",
             "pccl_master_free_report(m, m->remotes[i]);",
             "if (m->remotes[i]->group != NULL) pccl_master_free_report(m, m->remotes[i]);"),
            ("src/master/membership_admission.c",
             "if ((same && (!m->recovering || pccl_master_recovery_is_hopeless(m))) ||",
             "if ("),
        ] + BLIND_GONE),
    Bug("view_before_commits", "F12: some fail by the view what others are told is committed",
        ["I5", "I2", "ASSERT"], ["f12-commit-or-departure"],
        [
            ("src/master/operations_ends.c",
             "if (all && any) pccl_master_commit(m, group, op);",
             "if (all && any) op->world = op->part_count; /* to be committed after the view */"),
            ("src/master/operations.c",
             "if (!op->decided && pccl_is_of_whole_group(&op->instance)) free_operation(m, group, op);",
             "if (!op->decided && pccl_is_of_whole_group(&op->instance) && op->world == 0) "
             "free_operation(m, group, op);"),
            ("src/master/operations.c",
             "/* ---- messages of members ---- */",
             """
void commit_late(struct pccl_master *m, struct pccl_peer_group *group)
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
             "*, struct pccl_peer_group *); for (uint32_t i = 0; i < m->group_count; i++) commit_late(m, "
             "m->groups[i]);"),
        ]),
    Bug("tiny_under_the_bulk_rule", "F15: the result lacks the contribution of the one who died",
        ["I3", "I5", "ASSERT"], [],
        [("src/master/operations_ends.c", "op->decided || op->tiny || op->done_count", "op->decided || op->done_count"),
         ("src/master/operations_tiny.c", "PCCL_ASSERT(op->part_count > 0 && op->done_count == op->part_count && ",
          "PCCL_ASSERT(op->part_count > 0 && "),
         ("src/master/operations_tiny.c",
          "PCCL_ASSERT(part->payload_bytes == op->result_bytes); parts[i] = part->payload;",
          "static uint8_t none[PCCL_TINY_BYTES_MAX]; parts[i] = part->payload != NULL ? part->payload : none;"),
         ("src/master/operations_tiny.c", "PCCL_ASSERT(op->parts[i].payload_bytes == op->result_bytes);", ";"),
         ("src/master/operations_tiny.c",
          "parts[i] = op->parts[seat_at(all, (owner + 1 + i) % op->part_count)].payload + at;",
          "{ static uint8_t none[PCCL_TINY_BYTES_MAX]; const uint8_t *part = op->parts[seat_at(all, (owner + 1 + i) "
          "% op->part_count)].payload; parts[i] = (part != NULL ? part : none) + at; }")]),
]
