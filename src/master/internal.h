/* The master's state and the functions its files share. Nobody outside src/master and the simulator's checkers may
 * look. */
#ifndef PCCL_MASTER_INTERNAL_H
#define PCCL_MASTER_INTERNAL_H

#include "core/table.h"
#include "master/master.h"
#include "wire/session.h"

/* A connection without an accepted hello. */
struct pccl_stranger {
    struct pccl_node by_conn;
    struct pccl_stranger *older, *newer;
    pccl_conn conn;
    struct pccl_address address;
    uint64_t opened_us;
};

/* One launch as a peer reports it after a restart of the master. */
struct pccl_reported_op {
    struct pccl_reported_op *next;
    struct pccl_msg_resume_operation fields; /* its payload and words point into `bytes` */
    uint32_t bytes_length;
    uint8_t bytes[];
};

/* What a peer of an older boot knows (PROTOCOL 12.2). */
struct pccl_report {
    bool begun, ended;
    struct pccl_msg_resume fields; /* its lists point to the two arrays */
    struct pccl_member *members;   /* owned, fields.members_count */
    struct pccl_id *ring;          /* owned, fields.ring_count */
    struct pccl_reported_op *ops;  /* owned, newest first */
    uint32_t op_count;
    struct pccl_msg_resume_round rounds[PCCL_ROUND_KINDS];
    bool round_known[PCCL_ROUND_KINDS];
};

/* A link a peer was asked to hold, or said it holds. */
struct pccl_want {
    struct pccl_id to;
    bool up;
};

enum pccl_remote_state { PCCL_REMOTE_PENDING, PCCL_REMOTE_MEMBER, PCCL_REMOTE_RESUMING };

/* A peer as the master sees it. */
struct pccl_remote {
    struct pccl_node by_id, by_conn;
    uint32_t index; /* in master->remotes */
    struct pccl_id id, token;
    enum pccl_remote_state state;
    uint32_t group_number;
    struct pccl_group *group; /* members only */
    uint32_t position;        /* in the group's ring */
    uint64_t arrival;         /* order of arrival */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    struct pccl_address observed; /* with its listening port */
    char name[PCCL_NAME_MAX + 1];

    pccl_conn conn; /* 0: the control connection is lost */
    struct pccl_session session;
    uint64_t heard_us, spoke_us, warm_since_us;
    uint64_t stable_told, decision_known; /* decision numbers told stable / acknowledged */
    bool owes_view_ack;                   /* it may yet decide operations by the latest view of its group */
    bool verified;                        /* the master has reached its listener once */
    bool probing;

    bool departing; /* removed at the next IDLE */
    enum pccl_refusal why;
    struct pccl_text words;

    bool votes[PCCL_ROUND_KINDS];
    uint64_t voted_us[PCCL_ROUND_KINDS];
    struct pccl_msg_where where; /* call NONE: not known to wait */

    struct pccl_want *wants;
    uint32_t want_count, want_capacity;
    struct pccl_report *report; /* RESUMING */
};

/* One member's part of an operation. */
struct pccl_part {
    bool done;
    uint8_t *payload; /* owned; tiny */
};

/* An instance X (PROTOCOL 6). Undecided ones belong to the group's current view. */
struct pccl_operation {
    struct pccl_node by_instance;
    struct pccl_operation *older, *newer;
    struct pccl_instance instance;
    struct pccl_descriptor descriptor;
    struct pccl_id described_by;
    bool tiny;
    bool decided;
    enum pccl_class class;
    uint64_t decision;
    uint32_t world;
    uint32_t part_count, done_count; /* parts by ring position; freed at the decision */
    struct pccl_part *parts;
    uint32_t payload_bytes;
    uint8_t *result;        /* owned, payload_bytes; tiny and committed */
    uint64_t held_until_us; /* its abort waits: PEER_LOST for the cause to settle, else for the view; 0: not held */
    enum pccl_class held_class;
    struct pccl_id failed_by;
    struct pccl_text words;
};

struct pccl_group {
    uint32_t number;
    struct pccl_epoch view;
    uint64_t view_us; /* since when */
    struct pccl_remote **ring;
    uint32_t ring_count, ring_capacity;
    uint64_t sync, revision;
    uint64_t decisions, stable;
    uint32_t behind; /* members that know no outcome beyond `stable` */
    uint32_t held_count;
    struct pccl_table by_instance;
    struct pccl_operation *oldest, *newest;
    bool changed;                                             /* in the epoch change under way */
    struct pccl_attributes last_attributes[PCCL_ROUND_KINDS]; /* as the last round told them */
};

/* What was reported of a link that is not as it should be. */
struct pccl_edge {
    struct pccl_id from, to; /* `from` reports */
    bool incoming;
    enum pccl_link_end how;
    uint64_t since_us;
    uint64_t act_us; /* when the ring changes if it is not mended; 0: never */
    uint64_t bad_until_us;
};

struct pccl_master {
    struct pccl_master_config config;
    struct pccl_memory memory;
    struct pccl_master_effects effects;
    struct pccl_prng prng;
    uint64_t now_us, started_us, deadline_us;
    bool shut;

    bool founded;             /* a run exists */
    bool founded_by_newcomer; /* ... and was born in this boot */
    bool older_run_expected;  /* a newcomer has waited at an earlier boot */
    struct pccl_id lineage;
    struct pccl_id over[PCCL_RUNS_OVER_MAX]; /* runs that ended in this boot: their members are not taken back */
    uint32_t over_count;
    uint32_t inc;
    struct pccl_epoch epoch;
    uint64_t rounds[PCCL_ROUND_KINDS]; /* J and Q: numbers of the rounds that are open */
    uint8_t last_outcome[PCCL_ROUND_KINDS];

    bool recovering;
    uint64_t recovering_since_us;

    struct pccl_remote **remotes; /* in order of arrival */
    uint32_t remote_count, remote_capacity, member_count, departing_count;
    uint64_t arrivals;
    struct pccl_table by_id, by_conn, strangers_by_conn;
    struct pccl_stranger *oldest_stranger, *newest_stranger;
    struct pccl_group **groups;
    uint32_t group_count, group_capacity;
    struct pccl_edge *edges;
    uint32_t edge_count, edge_capacity;
    uint64_t committed, aborted, departures;
};

/* ---- master.c ---- */
void pccl_master_arm(struct pccl_master *m, uint64_t when_us); /* a TICK no later than this */
/* fields may be NULL; the run is added to them. */
void pccl_master_say(struct pccl_master *m, enum pccl_log_level level, const struct pccl_log_fields *fields,
                     const char *format, ...);
/* Numbered, kept until acknowledged. A full queue means departure. */
void pccl_master_send(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_msg *msg, uint64_t mark);
/* Not numbered: hello_ok, refused, heartbeat. */
void pccl_master_send_loose(struct pccl_master *m, pccl_conn conn, const struct pccl_msg *msg, uint64_t acknowledged);
void pccl_master_send_heartbeat(struct pccl_master *m, struct pccl_remote *remote, bool answer);

/* ---- admission.c ---- */
void pccl_master_opened(struct pccl_master *m, const struct pccl_master_event *event);
void pccl_master_stranger_received(struct pccl_master *m, struct pccl_stranger *stranger,
                                   const struct pccl_master_event *event);
void pccl_master_refuse(struct pccl_master *m, pccl_conn conn, enum pccl_refusal code, const char *words);
void pccl_master_drop_stranger(struct pccl_master *m, struct pccl_stranger *stranger);
void pccl_master_expire_strangers(struct pccl_master *m);

/* ---- membership.c ---- */
struct pccl_remote *pccl_master_find(const struct pccl_master *m, const struct pccl_id *id);
struct pccl_remote *pccl_master_add_remote(struct pccl_master *m, const struct pccl_msg_hello *hello,
                                           enum pccl_remote_state state);
void pccl_master_attach(struct pccl_master *m, struct pccl_remote *remote, pccl_conn conn,
                        const struct pccl_address *address);
void pccl_master_free_remote(struct pccl_master *m, struct pccl_remote *remote);
struct pccl_group *pccl_master_group(struct pccl_master *m, uint32_t number, bool create);
PCCL_MUST_CHECK bool pccl_master_join_ring(struct pccl_master *m, struct pccl_group *group, struct pccl_remote *remote);
void pccl_master_remove(struct pccl_master *m, struct pccl_remote *remote, enum pccl_refusal why, const char *format,
                        ...);
void pccl_master_settle(struct pccl_master *m);
void pccl_master_found(struct pccl_master *m, struct pccl_remote *first);
void pccl_master_need_lineage(struct pccl_master *m);
void pccl_master_found_if_empty(struct pccl_master *m);
void pccl_master_end_run(struct pccl_master *m);
bool pccl_master_is_over(const struct pccl_master *m, const struct pccl_id *lineage);
/* Gives every touched group (changed) the next epoch as its view and tells all members; added may be NULL. */
void pccl_master_next_epoch(struct pccl_master *m, const struct pccl_member *added, uint32_t added_count,
                            const struct pccl_id *removed, uint32_t removed_count, const struct pccl_text *why);
void pccl_master_say_epoch(struct pccl_master *m, uint32_t added, uint32_t removed, const struct pccl_text *why);
void pccl_master_send_epoch(struct pccl_master *m, struct pccl_remote *to, struct pccl_msg_epoch_change *change);
void pccl_master_welcome(struct pccl_master *m, struct pccl_remote *remote);
/* Temporary lists for messages: owned by the caller, NULL when memory is short. */
struct pccl_id *pccl_master_ring_ids(struct pccl_master *m, const struct pccl_group *group);
struct pccl_member *pccl_master_member_list(struct pccl_master *m);

/* ---- links.c ---- */
void pccl_master_link_lost(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_link_lost *lost);
void pccl_master_link_up(struct pccl_master *m, struct pccl_remote *from, const struct pccl_id *to);
void pccl_master_control_lost(struct pccl_master *m, struct pccl_remote *remote);
void pccl_master_probed(struct pccl_master *m, const struct pccl_master_event *event);
void pccl_master_probe(struct pccl_master *m, struct pccl_remote *remote);
bool pccl_master_known_dead(const struct pccl_master *m, const struct pccl_id *id, bool strict);
void pccl_master_note_edge(struct pccl_master *m, const struct pccl_id *from, const struct pccl_id *to, bool incoming,
                           enum pccl_link_end how);
void pccl_master_tick_edges(struct pccl_master *m);
void pccl_master_forget_links(struct pccl_master *m, const struct pccl_remote *gone);
/* Drops members that are not ring neighbours any more from everybody's wants, and asks for the ring's edges. */
void pccl_master_want_ring(struct pccl_master *m, struct pccl_group *group);
void pccl_master_plan_warm_up(struct pccl_master *m);
bool pccl_master_holds_link(const struct pccl_remote *from, const struct pccl_remote *to);
bool pccl_master_edge_is_bad(const struct pccl_master *m, const struct pccl_id *a, const struct pccl_id *b);
void pccl_master_avoid_bad_edges(struct pccl_master *m, struct pccl_group *group);
/* The newcomers that could be admitted now, in ring order per group, marked by admit[remote->index]. Returns how many.
 */
uint32_t pccl_master_eligible(struct pccl_master *m, bool *admit);

/* ---- operations.c ---- */
void pccl_master_done(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_done *done);
void pccl_master_failed(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_failed *failed);
void pccl_master_abort_requested(struct pccl_master *m, struct pccl_remote *from,
                                 const struct pccl_msg_abort_request *request);
void pccl_master_view_acked(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_view_ack *ack);
void pccl_master_commit_what_remains(struct pccl_master *m, struct pccl_group *group);
void pccl_master_drop_undecided(struct pccl_master *m, struct pccl_group *group);
void pccl_master_drop_operations(struct pccl_master *m, struct pccl_group *group);
void pccl_master_advance_stable(struct pccl_master *m, struct pccl_group *group);
void pccl_master_note_known(struct pccl_master *m, struct pccl_remote *remote, uint64_t decision);
void pccl_master_tick_operations(struct pccl_master *m);
void pccl_master_link_mended(struct pccl_master *m, struct pccl_remote *from);
struct pccl_operation *pccl_master_operation(struct pccl_master *m, struct pccl_group *group,
                                             const struct pccl_instance *instance, bool create);
void pccl_master_take_part(struct pccl_master *m, struct pccl_operation *op, struct pccl_remote *from,
                           const struct pccl_msg_done *done);
void pccl_master_commit(struct pccl_master *m, struct pccl_group *group, struct pccl_operation *op);
void pccl_master_abort(struct pccl_master *m, struct pccl_group *group, struct pccl_operation *op,
                       enum pccl_class class, const struct pccl_text *words);
void pccl_master_send_outcome(struct pccl_master *m, struct pccl_group *group, struct pccl_operation *op,
                              struct pccl_remote *only);

/* ---- rounds.c ---- */
void pccl_master_vote(struct pccl_master *m, struct pccl_remote *from, uint8_t kind, uint64_t round);
void pccl_master_withdraw(struct pccl_master *m, struct pccl_remote *from, uint8_t kind, uint64_t round);
struct pccl_attributes pccl_master_attributes(const struct pccl_master *m, const struct pccl_group *group);
void pccl_master_answer_round(struct pccl_master *m, struct pccl_remote *to, uint8_t kind);
void pccl_master_evaluate_rounds(struct pccl_master *m);

/* ---- recovery.c ---- */
bool pccl_master_begin_recovery(struct pccl_master *m, const struct pccl_id *lineage);
void pccl_master_resume_received(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
void pccl_master_try_recover(struct pccl_master *m);
void pccl_master_free_report(struct pccl_master *m, struct pccl_remote *remote);

/* ---- where.c ---- */
void pccl_master_where(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_where *where);

/* true: walk master->remotes for members that are not leaving */
static inline bool pccl_master_is_living_member(const struct pccl_remote *remote)
{
    return remote->state == PCCL_REMOTE_MEMBER && !remote->departing;
}

#endif
