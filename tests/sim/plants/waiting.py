"""Calls that can never meet."""
from .bug import Bug

PLANTS = [
    Bug("other_threads_do_not_count",
        "two operations that two threads await are proven stuck, though the missing launches may come",
        [], ["stuck-threads", "stuck-pending"],
        [
            ("src/master/where.c",
             "remote->where.call == own->call && remote->where.several == 0;",
             "remote->where.call == own->call;"),
        ]),
    Bug("operations_end_by_default",
        "operations that wait for each other end although the program has not set stuck_ms",
        [], ["stuck-operations"],
        [
            ("src/peer/where.c",
             "p->config.ends_operations",
             "true"),
        ]),
    Bug("most_end_with_the_fewer",
        "one newcomer with another first call ends the calls of all members",
        [], ["stuck-newcomer", "stuck-liar"],
        [
            ("src/peer/where.c",
             "most_have_come(p, op, answer) ? UINT64_C(2) : 1",
             "most_have_come(p, op, answer) ? UINT64_C(1) : 1"),
        ]),
    Bug("answers_between_do_not_count",
        "a peer that tries a call from time to time ends a call of another one, which it will meet",
        [], ["stuck-tries"],
        [
            ("src/peer/where.c",
             "*since_us = 0; return;",
             "return;"),
        ]),
    Bug("outcome_and_where_cross",
        "a peer whose outcome has crossed its question is said to wait, while it computes",
        [], ["stuck-crossing"],
        [
            ("src/peer/operations.c",
             "else if (op->awaited) end_where(p, op);",
             "else { }"),
        ]),
    Bug("waits_of_old_eras_count",
        "a peer says that it waits in an operation of an era that has ended, and ends the calls of others",
        [], ["stuck-liar"],
        [
            ("src/master/where.c",
             "remote->where.call == PCCL_CALL_OPERATION && instance->joint == pccl_master_joint(m) && "
             "instance->sync == remote->group->sync",
             "remote->where.call == PCCL_CALL_OPERATION"),
        ]),
    Bug("stuck_votes_stand",
        "votes that can never meet do not end",
        [], ["stuck-newcomer", "stuck-restart"],
        [
            ("src/peer/where.c",
             "call->stuck = true; call->deadline_us = p->now_us;",
             ";"),
        ]),
]
