/*
 * A peer as the master sees it: a newcomer, a member, or one that resumes after a restart. All
 * files may read its fields; only the file that a field serves changes it.
 */
#ifndef PCCL_MASTER_REMOTE_H
#define PCCL_MASTER_REMOTE_H

#include "core/list.h"
#include "core/table.h"
#include "core/text.h"
#include "master/links_state.h"
#include "master/membership_state.h"
#include "master/master.h"
#include "master/topology_state.h"
#include "wire/session.h"

struct pccl_peer_group; /* master/group.h */
struct pccl_report;     /* master/recovery_state.h */
struct pccl_sync_part;  /* master/rounds_sync.c */

enum pccl_remote_state { PCCL_REMOTE_PENDING, PCCL_REMOTE_MEMBER, PCCL_REMOTE_RESUMING };

/* A peer as the master sees it. */
struct pccl_remote {
    struct pccl_table_node by_id, by_conn;
    uint32_t index; /* in master->remotes */
    struct pccl_id id, token, link_key;
    struct pccl_id token_digest; /* as told to the members */
    uint32_t pass;               /* with which it came; 0: none */
    bool named;                  /* its name was chosen, so that it has the same name after a restart */
    enum pccl_remote_state state;
    uint32_t group_number;
    struct pccl_peer_group *group; /* members only */
    uint32_t position;             /* in the group's ring */
    uint64_t admitted;             /* the number of its admission; 0: not yet */
    uint32_t rank;                 /* among the members of its group, in the order of their admission */
    uint64_t arrival;              /* order of arrival */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    struct pccl_address observed; /* with its listening port */

    pccl_conn conn; /* 0: the control connection is lost */
    uint64_t attached_us;
    struct pccl_session session;
    struct pccl_text undecodable; /* reason why its latest message was invalid; empty: a valid one came after it */
    bool stuck;                   /* ... and it is the next message of the session, which therefore cannot continue */
    uint64_t heard_us, spoke_us, warm_since_us;
    uint64_t tell_us;         /* PENDING: when to log that nobody admits it; UINT64_MAX: that is done */
    struct pccl_queue *queue; /* PENDING and not departing; else NULL */
    struct pccl_site *site;   /* likewise */
    struct pccl_list_node in_queue;
    bool warming;    /* in a queue: its links are asked for */
    bool eligible;   /* in a queue: as of the last pccl_master_eligible */
    bool unwelcomed; /* a member that has not been sent `welcome` yet */
    bool untried;    /* a member whose group was empty before it, and that has not called anything yet */
    uint64_t decision_told, decision_known; /* the last outcome that it was told; that it has acknowledged */
    bool owes_view_ack;                     /* it may still decide operations by the latest view of its group */
    uint32_t views_owed;                    /* how many views it was told and has not acknowledged; they are ... */
    struct pccl_epoch view_acknowledged;    /* ... all later than this one */
    uint64_t believed_us;                   /* when its report alone last proved that a peer is gone; 0: never */
    bool counted;                           /* in a recovery: its word alone has counted for a member */
    bool verified;                          /* the master has reached its listener once */
    bool probing, probe_again;
    uint64_t unanswered_us; /* when the master's dial to its listener failed; 0: it has not */
    uint64_t look_again_us; /* when to dial its port again: it was closing, or nothing could be dialed; 0: no need */

    bool draining;      /* removed when the next update is decided */
    bool drains_itself; /* ... as its own votes ask */
    bool departing;     /* removed at the next IDLE */
    enum pccl_refusal why;
    struct pccl_text reason;

    struct pccl_text
        lack; /* why it could not open or accept links, or take part in a joint call, when it last said so */
    uint64_t lack_us, lack_logged_us; /* when that was, and when it was last logged; 0: never */
    bool unable[PCCL_ROUND_KINDS];    /* its latest vote says so */
    bool votes[PCCL_ROUND_KINDS];
    uint64_t voted_us[PCCL_ROUND_KINDS];
    struct pccl_sync_part *sync_part;   /* rounds_sync.c; NULL: it has not voted in the open round */
    struct pccl_msg_where where;        /* call NONE: not known to wait */
    uint32_t under_way;                 /* undecided operations that it has finished */
    struct pccl_table listens;          /* which sends to it are offered to it, by tag (operations_participants.c) */
    uint32_t founded_count, seat_count; /* subgroups that it is in or has said `done` to found; their members */
    uint32_t lone_aborts;               /* its lone ends in this era: at most PCCL_OPS_LONE_MAX */

    uint32_t place;  /* in the group's matrix */
    uint32_t number; /* its rank among the members in the order of places: for problems and reports */
    struct pccl_master_test test;

    uint64_t told_us, told_step; /* when it last told of its training, and what; 0: never */
    double told_loss;

    struct pccl_link_intent *intents;
    uint32_t intent_count, intent_capacity;
    struct pccl_hub to_hub, from_hub;
    struct pccl_report *report;   /* RESUMING */
    struct pccl_witness *witness; /* owned: what it has reported as a member of its group; NULL: nothing */
};

#endif
