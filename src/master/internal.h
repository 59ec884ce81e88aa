/* The master's state and the functions its files share. Nobody outside src/master and the simulator's checkers may
 * look. */
#ifndef PCCL_MASTER_INTERNAL_H
#define PCCL_MASTER_INTERNAL_H

#include "core/list.h"
#include "core/names.h"
#include "core/table.h"
#include "master/election.h"
#include "master/master.h"
#include "topology/matrix.h"
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
    uint32_t confirmed, contradicted;                      /* reports with this digest of its token, and with others */
    uint64_t since_us;                                     /* its peer said hello */
    uint64_t heard_us;                                     /* ... and something of it was heard last */
    struct pccl_msg_resume fields;                         /* its lists point to the two arrays */
    struct pccl_member *members;                           /* owned, fields.members_count */
    struct pccl_id *ring;                                  /* owned, fields.ring_count */
    struct pccl_reported_op *ops;                          /* owned, newest first */
    uint32_t op_count, launched_count;                     /* but for the aborted */
    struct pccl_msg_resume_round rounds[PCCL_ROUND_KINDS]; /* but for the words: */
    struct pccl_text round_words[PCCL_ROUND_KINDS];
    bool round_known[PCCL_ROUND_KINDS];
};

/* A link a peer was asked to hold, or said it holds. */
struct pccl_want {
    struct pccl_id to;
    bool up, failed; /* failed: the last dialling was in vain */
    uint32_t rtt_us; /* as last told; 0: unknown */
    uint64_t rate;   /* the same; at most PCCL_RATE_MOST */
};

/* A member's part in the tests of an optimisation. */
struct pccl_master_test {
    bool running;  /* it loads the way to another one, and its report is awaited */
    bool loaded;   /* another one loads the way to it */
    bool looks;    /* it has become free for either */
    bool sits_out; /* it did not report in time: it is left alone for the rest of this optimisation */
    uint64_t number, begun_us, until_us;
    struct pccl_id to;
};

/* Those who wait to be admitted to one group, in order of arrival. */
struct pccl_queue {
    struct pccl_node by_number;
    uint32_t number, count;
    struct pccl_link newcomers; /* remote->in_queue */
    struct pccl_link stale;     /* in master->stale_queues: something of it has changed */
    uint64_t due_us;            /* when somebody in it will have taken too long; UINT64_MAX: not as it is */
};

/* An address (IPv6: a network) that newcomers come from. */
struct pccl_site {
    struct pccl_node by_address;
    struct pccl_address address;
    uint32_t count;        /* that wait to be admitted */
    uint32_t warming_here; /* of the queue that is looked at: those that are warmed up */
};

enum { PCCL_ADMISSION_TOLD_US = 2000000 }; /* as `where_ms` of the peers is by default */

enum pccl_remote_state { PCCL_REMOTE_PENDING, PCCL_REMOTE_MEMBER, PCCL_REMOTE_RESUMING };

/* A peer as the master sees it. */
struct pccl_remote {
    struct pccl_node by_id, by_conn;
    uint32_t index; /* in master->remotes */
    struct pccl_id id, token, link_key;
    struct pccl_id token_digest; /* as told to the members */
    enum pccl_remote_state state;
    uint32_t group_number;
    struct pccl_group *group; /* members only */
    uint32_t position;        /* in the group's ring */
    uint64_t arrival;         /* order of arrival */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    struct pccl_address observed; /* with its listening port */

    pccl_conn conn; /* 0: the control connection is lost */
    struct pccl_session session;
    uint64_t heard_us, spoke_us, warm_since_us;
    uint64_t tell_us;         /* PENDING: when it is said that nobody admits it; UINT64_MAX: it has been */
    struct pccl_queue *queue; /* PENDING and not departing; else NULL */
    struct pccl_site *site;   /* the same */
    struct pccl_link in_queue;
    bool warming;                         /* in a queue: its links are asked for */
    bool eligible;                        /* in a queue: as of the last pccl_master_eligible */
    bool unwelcomed;                      /* a member that has not been told so yet */
    bool untried;                         /* ... whose group was empty, and that has called nothing yet */
    uint64_t stable_told, decision_known; /* decision numbers told stable / acknowledged */
    bool owes_view_ack;                   /* it may yet decide operations by the latest view of its group */
    uint32_t views_owed;                  /* views that it was told and has not acknowledged ... */
    struct pccl_epoch view_acknowledged;  /* ... are all later than this one */
    bool verified;                        /* the master has reached its listener once */
    bool probing, probe_again;
    uint64_t unanswered_us; /* the master's dial to its listener failed then; 0: not */
    uint64_t look_again_us; /* its port was closing, or (probing) nobody could be asked; 0: not */

    bool departing; /* removed at the next IDLE */
    enum pccl_refusal why;
    struct pccl_text words;

    bool votes[PCCL_ROUND_KINDS];
    uint64_t voted_us[PCCL_ROUND_KINDS];
    struct pccl_sync_part *sync_part; /* sync.c; NULL: it has not voted in the open round */
    struct pccl_msg_where where;      /* call NONE: not known to wait */
    uint32_t under_way;               /* operations that it has finished and that are undecided */
    uint32_t lone_aborts;             /* of this era, by its word alone: at most PCCL_OPS_LONE_MAX */

    uint32_t place;  /* in the group's matrix */
    uint32_t number; /* among the members in the order of their places: in problems and pictures */
    struct pccl_master_test test;

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
    struct pccl_id ended_by;   /* whose word alone has ended it; zero: there are others */
    struct pccl_id named_last; /* who said last that it has ended, ... */
    uint32_t named_count;      /* ... of so many */
    struct pccl_text words;
};

/* One who was removed, for when it comes back and asks why. */
struct pccl_gone {
    struct pccl_id id, token;
    struct pccl_text words;
};

/* One who says that it is of an older run than the one that is here. */
struct pccl_claim {
    struct pccl_id lineage, peer;
};

/* How far a group is in the optimisation under way. */
enum pccl_tuning_phase { PCCL_TUNING_NONE, PCCL_TUNING_TESTS, PCCL_TUNING_SEARCH, PCCL_TUNING_LINKS, PCCL_TUNING_OVER };

/* The search for better rings of a group. */
struct pccl_tuning {
    enum pccl_tuning_phase phase;
    uint32_t attempts;    /* searches in this optimisation */
    uint64_t patience_us; /* LINKS: until when they are waited for */
    bool known;           /* an optimisation has filled the matrix */
    bool moved;           /* figures have changed since the last search */
    uint32_t share;       /* thousandths of what tests promise, that operations achieve */
    bool unproven;        /* the ring that was found may not be the best */
    bool failed;          /* this optimisation has, as words say */
    struct pccl_text words;
    uint64_t ticket;       /* of the search under way; 0: none */
    bool background;       /* ... for which nobody waits */
    uint32_t ring_version; /* ... and the ring that it is about */
    uint64_t searched_for; /* the joint rounds decided when an update last called for one, and 1 */
    uint64_t seed, steps;  /* of the last search */
    uint32_t *better;      /* owned, better_count positions: the ring to be adopted; NULL: none */
    uint32_t better_count, better_version;
    char *text; /* owned, text_bytes: the last picture; NULL: none */
    size_t text_bytes;
    uint64_t text_us; /* when it was made, and of which ring */
    uint32_t text_version;
};

struct pccl_group {
    struct pccl_node by_number;
    uint32_t number;
    bool changed; /* in the epoch change under way */
    struct pccl_epoch view;
    struct pccl_cost cost;                                    /* of the view */
    struct pccl_attributes last_attributes[PCCL_ROUND_KINDS]; /* as the last round told them */

    uint32_t old_ring_count; /* as reported after a restart of the master */
    uint32_t ring_version;   /* counts its changes */
    uint64_t ring_us;        /* since when the ring is as it is */
    struct pccl_remote **ring;
    uint32_t ring_count, ring_capacity;

    struct pccl_matrix matrix;     /* of its ways; without places until an optimisation begins */
    struct pccl_remote **by_place; /* the members by their places in it; NULL: free */
    uint32_t place_count, place_capacity;
    struct pccl_tuning tuning;

    bool sync_planned;                      /* the open round has elected */
    uint8_t sync_outcome, optimize_outcome; /* of the rounds before, and why they failed */
    struct pccl_text sync_words, optimize_words;
    uint64_t sync, revision;      /* the open round; the revision that is due, 0: none yet */
    bool sync_proven;             /* ... and knows by which proof: those who brought it have said */
    struct pccl_proof sync_proof; /* 0: no majority of them could say */
    uint64_t sync_revision;       /* what it elected; else the round before */

    uint64_t decisions, stable;
    uint32_t behind; /* members that know no outcome beyond `stable` */
    uint32_t held_count;
    struct pccl_table by_instance;
    struct pccl_operation *oldest, *newest;
};

/* What was reported of a link that is not as it should be. */
struct pccl_edge {
    struct pccl_id from, to; /* `from` reports */
    bool incoming;
    enum pccl_link_end how;
    uint64_t since_us;  /* it was last said; 0: mended */
    uint64_t failed_us; /* it was said for the first time in this ring, if it is to be decided at ... */
    uint64_t act_us;    /* ... when the ring changes if it is not mended; 0: never */
    uint64_t bad_until_us;
};

struct pccl_master {
    struct pccl_master_config config;
    struct pccl_memory memory;
    struct pccl_master_effects effects;
    struct pccl_prng prng;
    uint64_t now_us, started_us, deadline_us;
    bool shut;

    bool founded;                            /* a run exists */
    bool founded_by_newcomer;                /* ... and was born in this boot */
    bool older_run_expected;                 /* a newcomer has waited at an earlier boot */
    struct pccl_id run_key;                  /* known to the members: who shows it was one */
    struct pccl_id lineage;                  /* its digest: the name of the run, which strangers may know */
    struct pccl_id over[PCCL_RUNS_OVER_MAX]; /* runs that ended in this boot: their members are not taken back */
    uint32_t over_count;
    struct pccl_epoch epoch;
    uint64_t rounds[PCCL_ROUND_KINDS]; /* J and Q: numbers of the rounds that are open; those of SYNC are the groups' */
    uint8_t last_outcome[PCCL_ROUND_KINDS];
    uint64_t untried_since_us[PCCL_ROUND_KINDS]; /* only members that are untried are missing; 0: it is not so */

    bool optimizing;         /* all have voted for it */
    uint64_t tests_begin_us; /* what is known since then is not tested again */
    uint64_t tests_end_us;   /* no test begins after that */
    uint64_t last_test, last_ticket;

    bool recovering;
    uint64_t recovering_since_us;

    struct pccl_remote **remotes; /* in order of arrival */
    uint32_t remote_count, remote_capacity, member_count, departing_count;
    uint64_t arrivals;
    struct pccl_hash_key hash; /* of all tables */
    struct pccl_table by_id, by_conn, strangers_by_conn;
    struct pccl_table groups_by_number;
    struct pccl_table queues, sites; /* of newcomers */
    struct pccl_link stale_queues;
    uint32_t newcomer_count;    /* in queues */
    uint64_t newcomers_due_us;  /* no queue is due before */
    uint64_t newcomers_visited; /* in queues, from the beginning: what waiting newcomers cost */
    struct pccl_names names;    /* of the remotes */
    struct pccl_stranger *oldest_stranger, *newest_stranger;
    struct pccl_group **groups;
    uint32_t group_count, group_capacity;
    struct pccl_edge *edges;
    uint32_t edge_count, edge_capacity;
    struct pccl_gone *gone; /* the latest PCCL_GONE_MAX of gone_count, in a circle */
    uint32_t gone_capacity;
    uint64_t gone_count;
    struct pccl_claim *claims; /* the latest PCCL_CLAIMS_MAX of claim_count, in a circle */
    uint32_t claim_capacity;
    uint64_t claim_count;
    uint64_t committed, aborted, departures;
};

/* ---- master.c ---- */
void pccl_master_arm(struct pccl_master *m, uint64_t when_us); /* a TICK no later than this */
/* fields may be NULL; the run is added to them. */
PCCL_PRINTF(4, 5)
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
/* This peer is removed: keeps the reason. */
void pccl_master_note_gone(struct pccl_master *m, const struct pccl_remote *remote);

/* ---- membership.c ---- */
/* Where a peer can be reached, as far as is known; PCCL_CANDIDATES_MAX at most. Returns how many. */
uint32_t pccl_master_addresses(const struct pccl_remote *remote, struct pccl_address *addresses);
struct pccl_remote *pccl_master_find(const struct pccl_master *m, const struct pccl_id *id);
struct pccl_remote *pccl_master_add_remote(struct pccl_master *m, const struct pccl_msg_hello *hello,
                                           enum pccl_remote_state state);
void pccl_master_attach(struct pccl_master *m, struct pccl_remote *remote, pccl_conn conn,
                        const struct pccl_address *address);
void pccl_master_free_remote(struct pccl_master *m, struct pccl_remote *remote);
struct pccl_group *pccl_master_group(struct pccl_master *m, uint32_t number, bool create);
PCCL_MUST_CHECK bool pccl_master_join_ring(struct pccl_master *m, struct pccl_group *group, struct pccl_remote *remote);
PCCL_PRINTF(4, 5)
void pccl_master_remove(struct pccl_master *m, struct pccl_remote *remote, enum pccl_refusal why, const char *format,
                        ...);
void pccl_master_settle(struct pccl_master *m);
void pccl_master_found(struct pccl_master *m, struct pccl_remote *first);
void pccl_master_need_lineage(struct pccl_master *m);
void pccl_master_found_if_empty(struct pccl_master *m);
void pccl_master_end_run(struct pccl_master *m);
bool pccl_master_is_over(const struct pccl_master *m, const struct pccl_id *lineage);
/* Gives every touched group (changed) the next epoch as its view and tells all members; added may be NULL. */
/* The group's ring in another order: positions of before. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_reorder(struct pccl_master *m, struct pccl_group *group, const uint32_t *order);
void pccl_master_next_epoch(struct pccl_master *m, const struct pccl_member *added, uint32_t added_count,
                            const struct pccl_id *removed, uint32_t removed_count, const struct pccl_text *why);
void pccl_master_say_epoch(struct pccl_master *m, uint32_t added, uint32_t removed, const struct pccl_text *why);
void pccl_master_send_epoch(struct pccl_master *m, struct pccl_remote *to, struct pccl_msg_epoch_change *change);
void pccl_master_welcome(struct pccl_master *m, struct pccl_remote *remote);
/* Temporary lists for messages: owned by the caller, NULL when memory is short. */
struct pccl_id *pccl_master_ring_ids(struct pccl_master *m, const struct pccl_group *group);
struct pccl_member pccl_master_as_member(const struct pccl_remote *remote);
struct pccl_member *pccl_master_member_list(struct pccl_master *m);

/* ---- names.c ---- */
/* What these are called: to be said before anything else of them. Of more than PCCL_NAMES_TOLD_MAX the first. */
void pccl_master_tell_names(struct pccl_master *m, struct pccl_remote *to, const struct pccl_member *of,
                            uint32_t count);

/* ---- links.c ---- */
void pccl_master_link_lost(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_link_lost *lost);
void pccl_master_link_up(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_link_up *up);
void pccl_master_control_lost(struct pccl_master *m, struct pccl_remote *remote);
void pccl_master_probed(struct pccl_master *m, const struct pccl_master_event *event);
void pccl_master_probe(struct pccl_master *m, struct pccl_remote *remote);
/* Its control connection is lost: dials its port once more, if that is due. */
void pccl_master_look_again(struct pccl_master *m, struct pccl_remote *remote);
/* Somebody whose word counts has dialled this peer in vain, as a process that is gone is. */
bool pccl_master_is_dead(const struct pccl_master *m, const struct pccl_id *id);
void pccl_master_note_edge(struct pccl_master *m, const struct pccl_id *from, const struct pccl_id *to, bool incoming,
                           enum pccl_link_end how);
void pccl_master_tick_edges(struct pccl_master *m);
void pccl_master_forget_edges(struct pccl_master *m, const struct pccl_remote *gone);
/* Of rates between members by their numbers: what is known as bad, and does not stand, has none. false: no memory. */
PCCL_MUST_CHECK bool pccl_master_strike_bad_pairs(struct pccl_master *m, const struct pccl_group *group,
                                                  uint64_t *rates);
void pccl_master_avoid_bad_edges(struct pccl_master *m, struct pccl_group *group);
/* When what is to become of the last failed link of this peer that its group needs is decided; 0: none has failed. */
uint64_t pccl_master_link_settles_at(struct pccl_master *m, const struct pccl_id *peer);

/* ---- wants.c ---- */
struct pccl_want *pccl_master_want(const struct pccl_remote *from, const struct pccl_id *to); /* or NULL */
bool pccl_master_holds_link(const struct pccl_remote *from, const struct pccl_remote *to);
/* Does the view of their group rely on it? */
bool pccl_master_needs_link(const struct pccl_remote *from, const struct pccl_remote *to);
void pccl_master_forget_links(struct pccl_master *m, const struct pccl_remote *gone);
/* Asks for the links of the group's ring, and of its mesh if it is small; other members are not wanted any more. */
void pccl_master_want_links(struct pccl_master *m, struct pccl_group *group);
/* Nothing happens if it is asked for already. */
void pccl_master_ask_for_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* For a new view: what the master knows of its links at this moment. */
void pccl_master_decide_cost(struct pccl_group *group);
/*
 * Marks the groups (changed) whose cost data are not what the view says any more: they could exchange directly by now
 * and do not, or a figure has moved (wire/cost.h). Returns how many, and if any, why.
 */
uint32_t pccl_master_review_costs(struct pccl_master *m, struct pccl_text *why);
/* It keeps links between all its members. */
static inline bool pccl_master_is_small(uint32_t members) { return members <= PCCL_MESH_PEERS_MAX; }

/* ---- newcomers.c ---- */
/* Is there room for one more newcomer of this group and address? Somebody else may have to go for it. false: words. */
PCCL_MUST_CHECK bool pccl_master_make_room(struct pccl_master *m, uint32_t group_number,
                                           const struct pccl_address *from, struct pccl_text *words);
/* false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_enqueue(struct pccl_master *m, struct pccl_remote *remote,
                                         const struct pccl_address *from);
/* It is admitted or goes. Nothing happens if it is in no queue. */
void pccl_master_unqueue(struct pccl_master *m, struct pccl_remote *remote);
/* What the newcomers of this group need, or have, may have changed: the next plan looks at them. */
void pccl_master_touch_queue(struct pccl_master *m, uint32_t group_number);
void pccl_master_touch_all_queues(struct pccl_master *m);
/* Asks for the links that newcomers need, and refuses who has not got them in time. */
void pccl_master_plan_warm_up(struct pccl_master *m);
/* Marks the newcomers that could be admitted now (remote->eligible), in ring order per group. Returns how many. */
uint32_t pccl_master_eligible(struct pccl_master *m);

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
void pccl_master_link_mended(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to);
struct pccl_operation *pccl_master_operation(struct pccl_master *m, struct pccl_group *group,
                                             const struct pccl_instance *instance, bool create);
/* Is the payload of a tiny operation as long as its descriptor says, and that of another one empty? */
PCCL_MUST_CHECK bool pccl_master_payload_fits(const struct pccl_descriptor *descriptor, bool tiny, uint32_t length,
                                              uint32_t most);
/* It ends this one, which nobody else had finished. true: that is more than the others can remember, and it goes. */
PCCL_MUST_CHECK bool pccl_master_ends_too_much(struct pccl_master *m, struct pccl_remote *from,
                                               struct pccl_operation *op);
/* The same after a restart, in two steps: who reports first is not blamed for what others confirm. */
void pccl_master_note_lone_end(struct pccl_remote *from, struct pccl_operation *op);
void pccl_master_judge_lone_ends(struct pccl_master *m);
/* It, too, says that this one has ended, or has launched it: it need not remember it for others. */
void pccl_master_confirm_end(struct pccl_master *m, const struct pccl_remote *from, struct pccl_operation *op);
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
/* The open round of this kind is over for all. outcome: of the groups that have none of their own. */
void pccl_master_conclude_round(struct pccl_master *m, uint8_t kind, uint8_t outcome);
void pccl_master_evaluate_rounds(struct pccl_master *m);
void pccl_master_tick_rounds(struct pccl_master *m);

/* ---- sync.c ---- */
void pccl_master_sync_vote(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_vote *vote);
void pccl_master_sync_proof(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_proof *proof);
void pccl_master_sync_done(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_done *done);
void pccl_master_withdraw_sync(struct pccl_master *m, struct pccl_remote *from, uint64_t round);
/* How the last round of its group ended, for one who has not heard it. */
void pccl_master_answer_sync(struct pccl_master *m, struct pccl_remote *to);
void pccl_master_evaluate_syncs(struct pccl_master *m);
void pccl_master_drop_sync_part(struct pccl_master *m, struct pccl_remote *remote);
/* It has voted, and fetches nothing (any more). */
bool pccl_master_has_come_to_sync(const struct pccl_remote *remote);
bool pccl_master_is_fetching(const struct pccl_remote *remote);

/* ---- figures.c: what is known of the ways within a group ---- */
PCCL_MUST_CHECK bool pccl_master_take_place(struct pccl_master *m, struct pccl_group *group,
                                            struct pccl_remote *remote);
void pccl_master_leave_place(struct pccl_group *group, struct pccl_remote *remote);
/* NULL: nothing is kept of it. */
struct pccl_figure *pccl_master_figure(const struct pccl_remote *from, const struct pccl_remote *to);
/* What data that flowed over a link has shown; a link that stands is not unreachable. */
void pccl_master_note_traffic(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to,
                              uint32_t rtt_us, uint64_t rate);
/* What a test has shown. */
void pccl_master_note_test(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to, uint32_t rtt_us,
                           uint64_t rate);
/* A test came to nothing, by no fault of the way: it is not repeated in this optimisation. */
void pccl_master_note_nothing(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* Nothing gets through; the other way neither, as long as that does not show. */
void pccl_master_note_unreachable(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* Nothing or nothing recent is known of it. */
bool pccl_master_is_stale(const struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to);
/* Of its own view of a way: rate and round trip for the cost of a view; 0: unknown. */
void pccl_master_way(const struct pccl_remote *from, const struct pccl_remote *to, uint64_t *rate, uint32_t *rtt_us);
/*
 * What operations achieve of what tests promise (tuning.share): the better half of the ring's ways. Where processors or
 * something else that all share set the pace, ways that are only tested must not look better than those that are used.
 */
void pccl_master_weigh(struct pccl_group *group);
/* What is known of a way, as the solver and people see it: a link that stands is a way, whatever a test says. */
struct pccl_figure pccl_master_see(const struct pccl_remote *from, const struct pccl_remote *to);
/* Gives the members their numbers. */
void pccl_master_number_members(struct pccl_group *group);
/* The group as the solver sees it, by the members' numbers; to be freed. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_pose(struct pccl_master *m, struct pccl_group *group,
                                      struct pccl_ring_problem *problem);
void pccl_master_free_problem(struct pccl_master *m, struct pccl_ring_problem *problem);

/* ---- pictures.c: the same for people ---- */
void pccl_master_describe(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_describe *describe);
void pccl_master_forget_picture(struct pccl_master *m, struct pccl_group *group);
void pccl_master_show(struct pccl_master *m, struct pccl_group *group);

/* ---- tests.c: the tests of an optimisation ---- */
void pccl_master_begin_tests(struct pccl_group *group);
/* Begins what can begin. false: nothing runs any more, and nothing is left to do. */
PCCL_MUST_CHECK bool pccl_master_run_tests(struct pccl_master *m, struct pccl_group *group);
void pccl_master_measured(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_measured *measured);
/* It leaves its group: nobody loads the way to it, or waits for its report, any more. */
void pccl_master_end_tests_of(struct pccl_master *m, struct pccl_remote *gone);
/* Those that are overdue end. */
void pccl_master_expire_tests(struct pccl_master *m, struct pccl_group *group);

/* ---- topology.c ---- */
/* Begins an optimisation that all have voted for, or goes on with it. */
void pccl_master_optimize(struct pccl_master *m);
void pccl_master_solved(struct pccl_master *m, const struct pccl_master_event *event);
void pccl_master_tick_topology(struct pccl_master *m);
/* Before an update is decided. true: it has to wait for a search, or for the links of what was found. */
PCCL_MUST_CHECK bool pccl_master_update_waits_for_rings(struct pccl_master *m);
/* Gives the groups (changed) the better rings that were found for them. Returns how many, and if any, why. */
uint32_t pccl_master_adopt_rings(struct pccl_master *m, struct pccl_text *why);
/* The links of the rings to come: a new view has dropped what is not of the present ones. */
void pccl_master_ask_for_better_links(struct pccl_master *m, struct pccl_group *group);
/* Where the best ring is not proven: goes on in the background. */
void pccl_master_search_on(struct pccl_master *m);
void pccl_master_drop_tuning(struct pccl_master *m, struct pccl_group *group);

/* ---- recovery.c ---- */
bool pccl_master_recovers_in_vain(const struct pccl_master *m);
bool pccl_master_begin_recovery(struct pccl_master *m, const struct pccl_id *run_key);
void pccl_master_resume_received(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
void pccl_master_try_recover(struct pccl_master *m);
/* This peer's report is of the highest epoch, which has it as a member. */
bool pccl_master_reports_law(const struct pccl_master *m, const struct pccl_remote *remote);
void pccl_master_free_report(struct pccl_master *m, struct pccl_remote *remote);

/* ---- where.c ---- */
void pccl_master_tick_admissions(struct pccl_master *m);
void pccl_master_where(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_where *where);
/* Whom this operation waits for, as its caller gives it up: appended, if anybody is known to be missing. */
void pccl_master_add_missing(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance,
                             struct pccl_text *words);

/* Of the era: the joint rounds that have been decided (PROTOCOL 1.4). */
static inline uint64_t pccl_master_joint(const struct pccl_master *m)
{
    return m->rounds[PCCL_ROUND_UPDATE] + m->rounds[PCCL_ROUND_OPTIMIZE];
}

/* true: walk master->remotes for members that are not leaving */
static inline bool pccl_master_is_living_member(const struct pccl_remote *remote)
{
    return remote->state == PCCL_REMOTE_MEMBER && !remote->departing;
}

#endif
