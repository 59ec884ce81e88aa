/*
 * A peer as the master sees it: a newcomer, a member, or one that resumes after a restart. All files may read the
 * fields; only the file that a field serves writes it.
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

struct pccl_remote {
    struct pccl_table_node by_id, by_conn;
    uint32_t index; /* index in master->remotes */
    struct pccl_id id, token, link_key;
    struct pccl_id token_digest; /* digest sent to the members */
    uint32_t pass;               /* pass of the token that it presented; 0: none */
    bool named;                  /* its name was chosen and so survives a restart of the peer */
    enum pccl_remote_state state;
    uint32_t group_number;
    struct pccl_peer_group *group; /* members only */
    uint32_t position;             /* position in the group's ring */
    uint64_t admitted;             /* number of its admission; 0: not yet */
    uint32_t rank;                 /* rank among the members of its group, in order of admission */
    uint64_t arrival;              /* order of arrival */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    struct pccl_address observed; /* address that the master sees, with the peer's listening port */

    pccl_conn conn; /* 0 if the control connection is lost */
    uint64_t attached_us;
    struct pccl_session session;
    struct pccl_text undecodable; /* reason why its latest message was invalid; empty after a valid one */
    /* ... and that message is the next one of the session, which therefore cannot continue */
    bool stuck;
    uint64_t received_us, spoke_us, warm_since_us;
    uint64_t tell_us;         /* PENDING: time to log that it is not admitted; UINT64_MAX: done */
    struct pccl_queue *queue; /* PENDING and not departing; else NULL */
    struct pccl_site *site;   /* NULL when `queue` is NULL */
    struct pccl_list_node in_queue;
    bool warming;                           /* queued: its links are requested */
    bool eligible;                          /* queued: result of the last pccl_master_eligible */
    bool unwelcomed;                        /* a member that has not received `welcome` yet */
    bool untried;                           /* a member that joined an empty group and has made no call yet */
    uint64_t decision_sent, decision_known; /* last outcome that was sent to it; last one that it has acknowledged */
    bool owes_view_ack;                     /* may still decide operations by the latest view of its group */
    uint32_t views_owed;                    /* number of views sent to it and not acknowledged ... */
    struct pccl_epoch view_acknowledged;    /* ... all later than this one */
    uint64_t believed_us;                   /* last time that its report alone proved a peer's death; 0: never */
    bool counted;                           /* recovery: its report alone has counted for a member */
    bool verified;                          /* the master has reached its listener */
    bool probing, probe_again;
    uint64_t unanswered_us; /* time of the master's failed dial to its listener; 0: none */
    uint64_t look_again_us; /* time to dial its port again, because it was closing or no dial was possible; 0: none */

    bool draining;      /* removed when the next topology update is decided */
    bool drains_itself; /* ... because its own votes ask for it */
    bool departing;     /* removed at the next IDLE */
    enum pccl_refusal why;
    struct pccl_text reason;

    struct pccl_text
        lack; /* last reported shortage: why it could not open or accept links, or take part in a joint call */
    uint64_t lack_us, lack_logged_us; /* time of that report; time when it was last logged; 0: never */
    bool unable[PCCL_ROUND_KINDS];    /* its latest vote reports that it cannot take part */
    bool votes[PCCL_ROUND_KINDS];
    uint64_t voted_us[PCCL_ROUND_KINDS];
    struct pccl_sync_part *sync_part; /* NULL: it has not voted in the open round (rounds_sync.c) */
    struct pccl_msg_where where; /* last report of the call in which it waits; call NONE: not known to be waiting */
    uint32_t under_way;          /* undecided operations that it has finished */
    struct pccl_table listens;   /* number of sends to be offered to it, by tag (operations_participants.c) */
    uint32_t founded_count, seat_count; /* subgroups that it belongs to or has agreed to found; sum of their members */
    uint32_t sole_aborts;               /* its lone aborts in this era, at most PCCL_OPS_LONE_MAX */

    uint32_t place;  /* place in the group's matrix */
    uint32_t number; /* rank among the members in order of places; for problems and reports */
    struct pccl_master_test test;

    uint64_t told_us, told_step; /* time and content of its last training report; 0: none */
    double told_loss;

    struct pccl_link_intent *intents;
    uint32_t intent_count, intent_capacity;
    struct pccl_hub to_hub, from_hub;
    struct pccl_report *report;   /* RESUMING */
    struct pccl_witness *witness; /* owned: its telemetry as a member of its group; NULL: none */
};

#endif
