"""Operations, and the sessions that carry what is said about them."""
from .bug import Bug

PLANTS = [
    Bug("labels_are_not_compared",
        "a peer that has left out a step is told of by its label",
        [], ["labels"],
        [
            ("src/wire/compare.c",
             " && pccl_label_equal(&a->label, &b->label);",
             ";"),
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
            ("src/master/membership_admission.c",
             "m->effects.send(m->effects.context, conn, frame.data, frame.length);",
             ";"),
        ]),
    Bug("tail_is_not_resent_by_the_peer",
        "F5: a DONE that was in the broken connection never arrives",
        ["PEACE", "I12"], ["f5-session"],
        [
            ("src/peer/control.c",
             "if (take_acknowledgment(p, ok->received)) resend_tail(p);",
             "(void)take_acknowledgment(p, ok->received); (void)resend_tail;"),
        ]),

    # ---- operations ----
    Bug("retries_have_deadlines_of_their_own",
        "8: an entry of a list that is repeated never meets its deadline",
        [], ["deadline-of-retries"],
        [
            ("src/peer/launches.c",
             "if (launch->deadline_us != 0)",
             "if (false)"),
        ]),
    Bug("done_of_an_old_view_counts",
        "R6.5: members of different views are reduced together",
        ["I5", "I3"], [],
        [
            ("src/master/operations_messages.c",
             "if (order < 0) return;",
             "if (false) return;"),
        ]),
    Bug("one_done_too_few",
        "R6.1: committed although one member has not finished",
        ["I5", "I3"], [],
        [
            ("src/master/operations_messages.c",
             "op->done_count == op->part_count; if (op->subgroup",
             "op->done_count + (op->part_count > 2 && !op->tiny) == op->part_count; if (op->subgroup"),
        ]),
    Bug("view_does_not_abort_for_all",
        "R6.4: who launches later what a view has killed waits for ever",
        ["I12", "I2", "I6"], ["f1-name-without-view"],
        [
            ("src/master/operations_messages.c",
             "i < ack->instances_count && !from->departing",
             "i < 0 && !from->departing"),
        ]),
    Bug("class_before_the_view_is_known",
        "R6.6: two members fail the same operation for different reasons, and only one retries",
        [], ["class-before-view"],
        [
            ("src/master/operations.c",
             "class != PCCL_CLASS_PEER_LOST && pccl_is_of_whole_group(&op->instance) && "
             "!pccl_master_is_view_known(group)",
             "false"),
        ]),
    Bug("deadline_names_nobody",
        "F27: whoever was missing when a deadline passed is named in the words",
        [], ["f27-no-retry"],
        [
            ("src/master/operations_messages.c",
             "pccl_master_add_missing(m, from, &request->instance, &reason);",
             ";"),
        ]),
    Bug("deadline_ends_it_alone",
        "F18: it fails here and is committed for the others",
        ["I2"], ["f18-deadline-and-commit"],
        [
            ("src/peer/operations.c",
             "pccl_peer_op_cancel(p, op, PCCL_CLASS_DEADLINE, NULL);",
             "{ struct pccl_text reason = {0}; pccl_peer_op_cancel(p, op, PCCL_CLASS_DEADLINE, NULL); "
             "if (!pccl_peer_is_decided(op)) decide(p, op, PCCL_CLASS_DEADLINE, &reason); }"),
        ]),
    Bug("views_of_all_groups_move",
        "F3: a death in one group aborts the operations of all",
        ["I8"], ["f3-groups"],
        [
            ("src/master/membership_views.c",
             "if (!m->groups[i]->changed) continue;",
             "m->groups[i]->changed = true;"),
        ]),
    Bug("outcome_forgotten_when_released",
        "R2.3: after a restart of the master nobody knows what was committed",
        ["I2", "I12", "I5", "I6", "PEACE"], [],
        [
            ("src/peer/op_table.c",
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
    Bug("late_launch_of_any_number",
        "2.3: what was aborted before it is launched is kept without a limit",
        [], ["late-launches"],
        [
            ("src/peer/launches.c",
             "if (p->op_count - p->tombstone_count + p->followed_count + needed > PCCL_OPS_PER_PEER_MAX)",
             "if (tombstone == NULL && p->op_count - p->tombstone_count + p->followed_count + needed > "
             "PCCL_OPS_PER_PEER_MAX)"),
        ]),
]
