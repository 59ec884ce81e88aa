"""Restart of the master."""
from .bug import Bug

PLANTS = [
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
             "&& group->ring_count == group->old_ring_count;",
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
]
