"""Membership and rings."""
from .bug import TAKE_BACK, Bug

PLANTS = [
    Bug("closing_port_is_looked_at_once",
        "F4: the port of a process that dies is closed after its connections, and nobody else sees it",
        [], ["f4-alone-closing"],
        [
            ("src/master/links.c",
             "remote->conn == 0 && remote->verified && event->how == PCCL_LINK_CLOSED",
             "false"),
        ]),
    Bug("closing_port_is_looked_at_twice",
        "F4: it may take any time to be closed",
        [], ["f4-alone-closing"],
        [
            ("src/master/links.c",
             "look_again(m, remote); /* a dying process",
             "{ if (remote->warm_since_us == 0) return; remote->warm_since_us = 0; look_again(m, remote); } /* a dying "
             "process"),
        ]),
    Bug("refused_dial_of_the_master_is_none",
        "F4: nobody but the master can notice the death of a peer that is alone in its group",
        [], ["f4-alone", "f4-alone-closing"],
        [
            ("src/master/links.c",
             "has_seen_it_gone(m, event)) pccl_master_remove(",
             "false) pccl_master_remove("),
        ]),
    Bug("turned_away_is_for_ever",
        "what is said to a connection whose hello was not read is no answer to the member behind it",
        [], ["crowded-out"],
        [
            ("src/peer/control.c",
             "refused->code == PCCL_REFUSAL_FULL && p->boot != 0",
             "false"),
        ]),
    Bug("newcomers_learn_no_names",
        "names: a newcomer knows what the members are called as well as they know what it is called",
        ["NAMES"], [],
        [
            ("src/master/membership.c",
             "pccl_master_tell_names(m, remote, members, m->member_count);",
             ""),
        ]),
    Bug("names_behind_the_epoch",
        "names: who has heard of a member has heard its name",
        ["NAMES"], [],
        [
            ("src/master/membership.c",
             "pccl_master_tell_names(m, to, change->added, change->added_count); pccl_master_send(m, to, &msg, 0);",
             "pccl_master_send(m, to, &msg, 0); pccl_master_tell_names(m, to, change->added, change->added_count);"),
        ]),
    Bug("the_gone_lose_their_names",
        "names: words speak of those who have just left",
        ["NAMES"], [],
        [
            ("src/peer/view.c",
             "remove_member(p, &change->removed[i]);",
             "remove_member(p, &change->removed[i]), pccl_names_forget(&p->names, &change->removed[i]);"),
        ]),
    Bug("answer_to_a_call_that_is_over",
        "I10: the answer to WHERE may come after the result; whoever waits for nobody must not say so",
        ["I10"], [],
        [
            ("src/peer/where.c",
             "answer->missing == 0 || !is_still_waiting(p, answer)",
             "answer->missing == 0 || (!is_still_waiting(p, answer) && p->state != PCCL_PEER_MEMBER)"),
        ]),
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
             "else if (hello->boot == m->config.boot) turn_away_gone(",
             "else if (hello->boot == m->config.boot && m->founded && !m->recovering && "
             "pccl_id_equal(&hello->run_key, &m->run_key)) come_in(m, stranger,"
             " pccl_master_add_remote(m, hello, PCCL_REMOTE_RESUMING), PCCL_HELLO_RESUME); else if (hello->boot == "
             "m->config.boot) turn_away_gone("),
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
             "if (to->conn == 0 && is_gone(m, to)) {",
             "if (is_gone(m, to) || count_witnesses(m, &to->id, m->recovering) > 0) {"),
        ]),
    Bug("a_broken_control_connection_kills",
        "F4: a control connection is only the first witness",
        [], ["f4-two-witnesses", "f5-session"],
        [
            ("src/master/links.c",
             "if (is_gone(m, remote))",
             "if (true)"),
        ]),
]
