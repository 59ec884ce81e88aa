"""Eras and rounds."""
from .bug import BLIND_USES, Bug

PLANTS = [
    Bug("counters_survive_the_era",
        "F20: the uses of members and newcomers do not line up",
        ["I12", "I11"], ["f20-counters"],
        [
            ("src/peer/operations.c",
             "/* PROTOCOL 1.5, 2.1: counters, outcomes and tombstones end with their era. Everything was quiet, so "
             "nothing is held. */ void pccl_peer_change_era(struct pccl_peer *p) {",
             "void pccl_peer_change_era(struct pccl_peer *p) { forget_stable(p); return;"),
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
        ["I7", "I2", "R8", "I12"], ["f8-epoch-content"],
        [
            ("src/master/rounds.c",
             "if (round + 1 == m->rounds[kind]) {",
             "if (false) {"),
            ("src/master/rounds.c",
             "if (round != m->rounds[kind]) {",
             "if (false) {"),
            ("src/master/recovery.c",
             "pccl_master_tell_missed_rounds(m);",
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
            ("src/master/eligibility.c",
             "if (m->remotes[i]->state == PCCL_REMOTE_MEMBER && !m->remotes[i]->votes[kind])",
             "if (m->remotes[i]->state == PCCL_REMOTE_MEMBER && m->remotes[i]->conn != 0 && "
             "!m->remotes[i]->votes[kind])"),
        ]),
    Bug("attributes_are_live",
        "R8: two callers see different worlds after the same call",
        ["R8"], [],
        [
            ("src/peer/peer.c",
             '#include "peer/where.h"',
             '#include "peer/view.h"\n#include "peer/where.h"'),
            ("src/peer/peer.c",
             "{ return p->attributes; }",
             "{ return p->state == PCCL_PEER_MEMBER ? pccl_peer_live_attributes(p) : p->attributes; }"),
        ]),
]
