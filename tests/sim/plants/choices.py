"""Automatic codecs: who knows which level is next."""
from .bug import Bug

PLANTS = [
    Bug("newcomer_begins_alone",
        "7.12: a newcomer, which was told of no outcome, computes another level than the others remember",
        ["A1"], ["choice-follows"],
        [
            ("src/peer/view.c",
             "if (!change->replans && !has_common_past(p, change)) pccl_peer_forget_choices_of_group(p);",
             "(void)has_common_past;"),
        ]),
    Bug("restart_keeps_choices",
        "7.12: members that were told other views before a restart remember other levels",
        [], ["choice-missed-views"],
        [
            ("src/peer/view.c",
             "return change->epoch.inc == p->view.inc;",
             "return true;"),
        ]),
    Bug("restart_tells_another_level",
        "12.4: an outcome that one member has heard is told the others with another level",
        [], ["choice-restart"],
        [
            ("src/peer/resume.c",
             "fields->state == PCCL_RESUME_COMMITTED ? &op->next_choice : &op->choice;",
             "&op->choice;"),
        ]),
    Bug("peers_choose_for_themselves",
        "7.12: each peer goes by its own time, and the last to come by another one than the first",
        ["A1"], [],
        [
            ("src/peer/choices.c",
             "kept->choice = *next;",
             "kept->choice = pccl_choice_next(&op->descriptor, &op->choice, op->took_us);"),
        ]),
    Bug("first_word_counts",
        "7.12: who waited for the others says how long the transfer took",
        [], ["choice-waits"],
        [
            ("src/master/operations.c",
             "if (took_us != PCCL_TOOK_UNKNOWN) op->launched_us = pccl_max_u64(op->launched_us,",
             "if (took_us != PCCL_TOOK_UNKNOWN && op->launched_us == 0) op->launched_us = pccl_max_u64(0,"),
        ]),
    Bug("levels_end_with_the_era",
        "7.12: a level is forgotten by an update without newcomers",
        [], ["choice-follows"],
        [
            ("src/peer/choices.c",
             "era_of(p) - kept->era > ERAS_KEPT",
             "era_of(p) != kept->era"),
        ]),
    Bug("undecided_measured_by_the_outage",
        "12.4: an operation that a restarted master commits is judged by what nobody measured",
        [], ["choice-undecided"],
        [
            ("src/master/recovery_operations.c",
             "choice.took_us = PCCL_TOOK_UNKNOWN;",
             "choice.took_us = 0;"),
        ]),
]
