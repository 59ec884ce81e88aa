"""Views that only re-plan (PROTOCOL 5.4): what is under way begins again, and nobody fails."""
from .bug import Bug

PLANTS = [
    Bug("a_replan_aborts",
        "5.4: what is under way ends as PEER_LOST although nobody has gone",
        ["I8"], ["replan-goes-on", "replan-heard-late"],
        [
            ("src/peer/view.c",
             "if (change->replans) pccl_peer_view_replans(p);",
             "if (change->replans && p == NULL) pccl_peer_view_replans(p);"),
        ]),
    Bug("done_in_both_views",
        "5.4: what is complete along the old ring counts as complete along the new one",
        ["I3", "I4", "I5"], ["replan-goes-on", "replan-heard-late"],
        [
            ("src/peer/operations.c",
             "op->complete = false; op->begun_us = p->now_us; "
             "op->state = op->state == PCCL_OP_DONE ? PCCL_OP_RUNNING : op->state;",
             "op->begun_us = p->now_us;"),
        ]),
    Bug("parts_of_the_view_before",
        "6.5: the master keeps what members had finished in the view before",
        ["I3", "I4", "I5"], ["replan-goes-on"],
        [
            ("src/master/operations.c",
             "free_parts(m, op); op->done_count = 0; op->launched_us = 0; } count_under_way(group);",
             "op->launched_us = 0; }"),
        ]),
    Bug("failed_in_the_view_before",
        "6.3: a link of the old ring still fails what goes on along the new one",
        [], ["replan-after-failure"],
        [
            ("src/master/operations_messages.c",
             "if (is_sent_again(from, instance, view) || ",
             "if ((false && is_sent_again(from, instance, view)) || "),
        ]),
    Bug("an_abort_is_not_said_again",
        "5.4: what a caller has ended in the view before, the master has not heard of",
        [], ["replan-after-abort"],
        [
            ("src/peer/operations.c",
             "p->effects.op_restart(p->effects.context, op); } } pccl_peer_report_progress(p, op);",
             "p->effects.op_restart(p->effects.context, op); } } "
             "if (op->state != PCCL_OP_FAILED && !op->abort_sent) pccl_peer_report_progress(p, op);"),
        ]),
    Bug("a_link_fails_it_for_good",
        "5.4: what a link has failed does not begin again with the others",
        [], ["replan-after-failure"],
        [
            ("src/peer/operations.c",
             "if (op->state == PCCL_OP_FAILED && op->class == PCCL_CLASS_PEER_LOST) {",
             "if (op->state == PCCL_OP_FAILED && op->tiny) {"),
        ]),
    Bug("a_replan_does_not_wait",
        "6.5: the ring is planned anew while an abort is held, and before all know the last view",
        ["ASSERT"], ["replan-has-to-wait"],
        [
            ("src/master/diagnosis_slow_links.c",
             "m->departing_count == 0 && group->held_count == 0 && group->ring_count > 2 && "
             "pccl_master_is_view_known(group);",
             "m->departing_count == 0 && group->ring_count > 2;"),
        ]),
    Bug("other_cost_data",
        "5.4: the cost data change with the ring, and with them the first level of an automatic codec",
        ["D6"], ["replan-and-choice"],
        [
            ("src/master/membership_views.c",
             "pccl_master_await_again(m, group); } else {",
             "pccl_master_await_again(m, group); decide_cost(m, group); } else {"),
        ]),
    Bug("choices_end",
        "7.12: members forget the choices of automatic codecs at a re-plan behind a restart, and others launch later",
        [], ["choice-replan"],
        [
            ("src/peer/view.c",
             "if (!change->replans && (has_newcomers || restarted))",
             "if (has_newcomers || restarted)"),
        ]),
    Bug("it_begins_again_for_nothing",
        "9.12: what would be over sooner along the slow link begins again",
        [], ["slow-link-is-left-at-once"],
        [
            ("src/master/diagnosis_slow_links.c",
             "if (stay_us < anew_us + anew_us / 4 + GAIN_US_LEAST) return false;",
             ""),
        ]),
    Bug("it_begins_again_and_again",
        "9.12: nothing bounds how often what is under way is interrupted",
        [], ["slow-link-is-left-at-once"],
        [
            ("src/master/diagnosis_slow_links.c",
             "(last_us != 0 && m->now_us < last_us + PAUSE_US) ||",
             "(last_us == UINT64_MAX) ||"),
        ]),
]
