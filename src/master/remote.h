/*
 * A peer as the master sees it: a newcomer, a member, or a peer that resumes after a restart. All files may read the
 * fields. Only the responsible file writes a field.
 */
#ifndef PCCL_MASTER_REMOTE_H
#define PCCL_MASTER_REMOTE_H

#include "core/budget.h"
#include "core/list.h"
#include "core/table.h"
#include "core/text.h"
#include "master/links_state.h"
#include "master/membership_state.h"
#include "master/master.h"
#include "master/topology_state.h"
#include "wire/session.h"

struct pccl_goodput;    /* master/goodput.h */
struct pccl_peer_group; /* master/group.h */
struct pccl_report;     /* master/recovery_state.h */
struct pccl_sync_part;  /* master/rounds_sync.c */

enum pccl_remote_state { PCCL_REMOTE_PENDING, PCCL_REMOTE_MEMBER, PCCL_REMOTE_RESUMING };

struct pccl_remote {
    struct pccl_table_node by_id, by_conn;
    uint32_t index; /* index in master->remotes */
    struct pccl_id id, token, link_key;
    struct pccl_id token_digest; /* token digest that members receive */
    uint32_t pass;               /* pass of its token; 0: none */
    bool named;                  /* true if its name was configured, so that the peer has it again after a restart */
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
    /* true if that message is the next one of the session, which therefore cannot continue */
    bool stuck;
    uint64_t received_us, sent_us, warm_since_us;
    /* PENDING: time at which the master logs that it is not admitted; UINT64_MAX: already logged */
    uint64_t log_us;
    struct pccl_queue *queue; /* queue of a PENDING peer that is not departing; otherwise NULL */
    struct pccl_site *site;   /* NULL when `queue` is NULL */
    struct pccl_list_node in_queue;
    bool warming;  /* queued: true if its links are requested */
    bool eligible; /* queued: result of the last pccl_master_eligible */
    /* queued: member that it will follow in the ring, chosen with its links; NULL: the last one */
    const struct pccl_remote *follows;
    bool unwelcomed;                        /* true for a member that has not received `welcome` yet */
    bool untried;                           /* true for a first member of its group that has made no call yet */
    uint64_t decision_sent, decision_known; /* last outcome sent to it; last outcome that it has acknowledged */
    bool awaits_view_ack;                   /* true if the latest view may still decide operations at this member */
    uint32_t unacknowledged_views;          /* number of views that it has not acknowledged */
    struct pccl_epoch view_acknowledged;    /* latest view that it has acknowledged */
    bool counted;                           /* recovery: true if its report alone has proved a peer's death */
    bool verified;                          /* true if the master has reached its listening port */
    bool closed;   /* true if the master cannot reach that port, so that this peer must dial its links itself */
    bool undialed; /* true if a peer that the master can reach could not dial it either */
    bool isolated; /* true if it could not dial another peer with a closed port, and has no link to any of them */
    bool probing, probe_again;
    uint32_t probe_turn;    /* number of the address that the master dials (links_reports.c) */
    uint64_t probed_us;     /* with `probing`: time since which the master dials the port without an answer */
    uint64_t unanswered_us; /* time of the master's failed dial to its port; 0: none */
    /* time of the next dial to its port, because it was closing or no dial was possible; 0: none */
    uint64_t look_again_us;
    uint64_t pause_us; /* pause before the next dial to a port that the master has never reached */

    bool draining;      /* true if it must be removed when the next topology update is decided */
    bool drains_itself; /* true if the peer itself requested this */
    bool departing;     /* true if it must be removed at the next IDLE */
    enum pccl_refusal why;
    struct pccl_text reason;

    /* last reason that it reported for being unable to open or accept links, or to take part in a joint call */
    struct pccl_text lack;
    uint64_t lack_us, lack_logged_us; /* time of that report; time at which one was last logged; 0: never */
    bool unable[PCCL_ROUND_KINDS];    /* true if its latest vote reports that it cannot take part */
    bool votes[PCCL_ROUND_KINDS];
    uint64_t voted_us[PCCL_ROUND_KINDS];
    struct pccl_sync_part *sync_part; /* NULL if it has not voted in the open round (rounds_sync.c) */
    /* last report of the call in which it waits; call NONE if it is not known to be waiting */
    struct pccl_msg_where where;
    uint32_t under_way;        /* number of undecided operations that it has finished */
    struct pccl_table listens; /* number of sends that may be offered to it, by tag (operations_participants.c) */
    /* number of subgroups that it belongs to or has agreed to found; sum of their sizes */
    uint32_t founded_count, seat_count;
    uint32_t sole_aborts; /* number of its lone aborts in this era, at most PCCL_OPS_LONE_MAX */

    uint32_t place;  /* place in the group's matrix */
    uint32_t number; /* rank among the members in order of places; used in problems and reports */
    struct pccl_master_test test;

    uint64_t training_us, training_step; /* time and content of its last training report; 0: none */
    double training_loss;

    struct pccl_budget backs; /* limits the connections that it makes other peers dial */
    struct pccl_link_intent *intents;
    uint32_t intent_count, intent_capacity;
    struct pccl_hub to_hub, from_hub;
    struct pccl_report *report;   /* RESUMING */
    uint64_t joined_us;           /* time of its admission; 0: before the master's start */
    struct pccl_goodput *goodput; /* owned: use of its time; NULL: no report */
    struct pccl_witness *witness; /* owned: its telemetry as a member of its group; NULL: none */
};

#endif
