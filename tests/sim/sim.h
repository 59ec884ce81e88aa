/*
 * The deterministic simulator: real master and peer machines and the real codec over simulated TCP, faults drawn from a
 * seed, applications that use them, and checkers that run after each step. docs/SIMULATION.md explains how it works.
 *
 * Everything happens in one heap of events ordered by (time, sequence); every random choice is drawn from the seed.
 */
#ifndef SIM_H
#define SIM_H

#include "core/base.h"
#include "core/memory.h"
#include "core/prng.h"
#include "kernels/reduce.h"
#include "master/master.h"
#include "peer/queries.h"
#include "wire/coalesced.h"
#include "wire/frame.h"
#include "wire/wire.h"

#define SIM_MS UINT64_C(1000)
#define SIM_S UINT64_C(1000000)

enum {
    SIM_HOSTS_MAX = 32,
    SIM_PEERS_MAX = 1024, /* incarnations in one run */
    SIM_TAGS_MAX = 4,     /* number in random runs */
    SIM_TAGS_KNOWN = 256, /* number of tags whose uses are followed */
    SIM_LINKS_MAX = 128,  /* of one peer */
    SIM_ELEMENTS = 4,
    SIM_DONORS_MAX = 32, /* donors named to one requester, in one plan */
    SIM_MASTER_PORT = 48148,
    SIM_PEER_PORT = 48149,
};

#define SIM_RATE_NONE UINT64_MAX /* in path_rates: the path carries nothing */

struct sim;
struct sim_conn;
struct sim_process;

/* ---- world.c: events, randomness, memory, trace ---- */

struct sim_event {
    uint64_t time, sequence;
    void (*run)(struct sim *sim, void *subject, uint64_t a, uint64_t b);
    void *subject;
    uint64_t a, b;
};

void sim_at(struct sim *sim, uint64_t time, void (*run)(struct sim *, void *, uint64_t, uint64_t), void *subject,
            uint64_t a, uint64_t b);
/* Runs the earliest event. Returns false without events. */
bool sim_step(struct sim *sim);
/* Runs until the time, or until done(sim) holds (checked after each event). */
bool sim_run_until(struct sim *sim, uint64_t time, bool (*done)(struct sim *));
uint64_t sim_random(struct sim *sim, uint64_t below);
bool sim_chance(struct sim *sim, uint32_t percent);
uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high);     /* uniform, inclusive */
uint64_t sim_log_between(struct sim *sim, uint64_t low, uint64_t high); /* uniform in the logarithm */
uint64_t sim_mix(uint64_t a, uint64_t b);
/* One line of the trace: hashed always, printed with --trace. */
void sim_note(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A violation: prints the seed, the time and the reason, and ends the run. */
PCCL_NORETURN void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Memory of one machine; allocation number fail_at fails (0: none). */
struct sim_memory {
    struct sim *sim;
    uint64_t allocations, fail_at;
    size_t bytes, peak;
};
struct pccl_memory sim_memory_hook(struct sim_memory *memory);

/* ---- net.c: hosts, ports, connections that behave as TCP ---- */

enum sim_plane { SIM_CONTROL, SIM_DATA, SIM_PLANES };
enum sim_cut { SIM_WHOLE = 0, SIM_DROP, SIM_REFUSE };
enum sim_role {
    SIM_ROLE_NONE,
    SIM_ROLE_MASTER,
    SIM_ROLE_CONTROL,
    SIM_ROLE_LINK_OUT,
    SIM_ROLE_LINK_IN,
    SIM_ROLE_PROBE,
    SIM_ROLE_STRANGER
};

struct sim_chunk {
    struct sim_chunk *next;
    uint64_t arrives;
    uint32_t length;
    uint8_t bytes[];
};

enum sim_shake {
    SIM_SHAKE_NONE, /* in the clear */
    SIM_SHAKING,
    SIM_SHAKE_UNHEARD, /* done, but the other end may not have the key */
    SIM_SHAKEN,
    SIM_SHAKE_FAILED
};

/* One end of a connection, as its process holds it. */
struct sim_end {
    struct sim_process *process;
    enum sim_role role;
    bool open;        /* the process has it open */
    bool established; /* reported to the process */
    bool failed;      /* dialing failed */
    enum pccl_link_end how;
    bool ended;  /* nothing follows the bytes in `in` */
    bool queued; /* in the process's list of ready ends */
    bool hello_seen;
    struct pccl_id peer;    /* links and probes: the intended peer, or the one that answered */
    struct pccl_id lineage; /* probes */
    uint64_t deadline;      /* links and probes: must be up by then */
    struct pccl_frame_reader reader;
    uint8_t *in;
    uint32_t in_start, in_end, in_capacity;
    enum sim_shake shake;
    bool greeted;       /* the other end has */
    struct pccl_id key; /* key of the link */
    const char *why;    /* reason for a failed handshake */
    uint8_t *held;      /* owned: data to send when the handshake is done */
    uint32_t held_length;
    /* Data that this end sends: */
    struct sim_chunk *first, *last;
    uint64_t last_arrival, stalled_since;
    bool fin, scheduled, stalled, blackhole;
    uint16_t last_type; /* not 0: everything that this end sends after a message of this type is lost */
    bool last_said;
};

struct sim_conn {
    uint64_t id;
    enum sim_plane plane;
    uint32_t hosts[2];
    uint16_t port;
    uint64_t slow_until, slow_by;
    bool broken;
    bool answered;          /* a middlebox acknowledges all bytes of the end that dialed, and drops them */
    struct sim_end ends[2]; /* 0 dialed */
    struct sim_conn *next;
};

/* The process gets the result as a ready end: established or failed. */
struct sim_conn *sim_dial(struct sim *sim, struct sim_process *from, enum sim_role role, enum sim_plane plane,
                          uint32_t host, uint16_t port);
void sim_conn_send(struct sim *sim, struct sim_conn *conn, int end, const uint8_t *bytes, size_t length);
void sim_conn_send_msg(struct sim *sim, struct sim_conn *conn, int end, const struct pccl_msg *msg);
/* Past the handshake. */
void sim_conn_send_raw(struct sim *sim, struct sim_conn *conn, int end, const uint8_t *bytes, size_t length);
/* Flushes, then FIN. */
void sim_conn_close(struct sim *sim, struct sim_conn *conn, int end);
/* Both ends break; bytes in flight are lost from a random point on. */
void sim_conn_reset(struct sim *sim, struct sim_conn *conn);
/*
 * Breaks the accepted end only: the end that dialed gets nothing more, and notices it by the silence, or, if a
 * middlebox has answered, never.
 */
void sim_conn_half_reset(struct sim *sim, struct sim_conn *conn, bool answered);
/* Ends the input of this end, after the bytes that have arrived. */
void sim_conn_shutdown(struct sim *sim, struct sim_conn *conn, int end);
/* Makes everything that `end` sends disappear from now on, without notice to either side. */
void sim_conn_blackhole(struct sim *sim, struct sim_conn *conn, int end);
/* Ends a process: its kernel closes its connections (if its host is lost, nothing closes them). */
void sim_net_process_gone(struct sim *sim, struct sim_process *process, bool silently);
void sim_net_cut(struct sim *sim, uint32_t a, uint32_t b, enum sim_plane plane, enum sim_cut cut);
enum sim_cut sim_net_state(const struct sim *sim, uint32_t a, uint32_t b, enum sim_plane plane);
/* Returns the fate of data between two processes, if either end may dial. */
struct sim_process;
enum sim_cut sim_net_between(const struct sim *sim, const struct sim_process *a, const struct sim_process *b);
void sim_net_host(struct sim *sim, uint32_t host, bool up);
struct sim_process *sim_net_listener(struct sim *sim, uint32_t host, uint16_t port);
void sim_net_fini(struct sim *sim);
/* The build of all processes, unless a scenario gives one another. */
const struct pccl_build *sim_build(void);
/* The next whole message of the end: 1; 0: none; -1: garbage (reason); -2: an invalid message, which arrived whole. */
int sim_end_next(struct sim *sim, struct sim_end *end, struct pccl_frame *frame, struct pccl_msg *msg,
                 struct pccl_text *reason, bool *other_build);
struct pccl_address sim_address(uint32_t host, uint16_t port);
uint32_t sim_host_of(const struct pccl_address *address);

/* ---- shake.c: the handshakes of encrypted connections ---- */

enum { SIM_SHAKE_STEPS = 3 };
enum sim_shake_way { SIM_SHAKE_SILENCE, SIM_SHAKE_RESET, SIM_SHAKE_KEY, SIM_SHAKE_GARBAGE, SIM_SHAKE_WAYS };
extern const char *const sim_shake_ways[SIM_SHAKE_WAYS];

/* The next handshakes to and from a host fail. */
struct sim_shake_fault {
    uint32_t left; /* number of faults left */
    uint32_t host;
    enum sim_plane plane;
    uint8_t step; /* from 1 on */
    enum sim_shake_way way;
};
/* Reads its received messages. */
void sim_shake_hands(struct sim *sim, struct sim_conn *conn, int end);
/* Returns true if the bytes are kept until the handshake is done, or dropped, since it has failed. */
bool sim_shake_send(struct sim *sim, struct sim_conn *conn, int end, const uint8_t *bytes, size_t length);
/* Returns the outcome for a connection for shared state or for a test, which are not simulated; 0: it is up. */
enum pccl_link_end sim_shake_outcome(struct sim *sim, uint32_t from, uint32_t to);

/* ---- process.c: processes, which have a loop and can be stopped and killed ---- */

struct sim_process {
    struct sim *sim;
    bool is_master;
    bool alive;
    bool starved;           /* it has no descriptor left: it opens and accepts no links, and takes part in no round */
    enum sim_cut wall;      /* fate of connections from other hosts to its port: SIM_DROP behind a NAT or a firewall */
    uint32_t site;          /* processes of one site reach each other's ports; 0: it is alone */
    uint64_t stopped_until; /* SIGSTOP */
    uint64_t closing_until; /* after death, its kernel still closes its connections until then, the port last */
    uint32_t host;
    uint16_t port; /* listens here */
    uint32_t number;
    uint64_t wake_at, tick_at; /* UINT64_MAX: none scheduled */
    struct sim_conn **ready;   /* connections with something to read; the end is the process's */
    uint32_t ready_count, ready_capacity;
    uint32_t probe_count; /* under way */
    struct sim_memory memory;
    struct pccl_memory hook;
    uint64_t steps_in_slice, slice; /* I12: detects spinning */
};

void sim_process_init(struct sim *sim, struct sim_process *process, uint32_t host, uint16_t port);
bool sim_process_runs(const struct sim_process *process);
void sim_process_ready(struct sim *sim, struct sim_conn *conn, int end);
void sim_process_arm(struct sim *sim, struct sim_process *process);
/* SIGCONT */
void sim_process_continue(struct sim *sim, struct sim_process *process);
void sim_process_stop(struct sim *sim, struct sim_process *process, uint64_t until);
void sim_process_fini(struct sim_process *process);
int sim_conn_end_of(const struct sim_conn *conn, const struct sim_process *process);

/* ---- master_host.c ---- */

struct sim_master {
    struct sim_process process; /* first */
    struct pccl_master *machine;
    struct pccl_master_config config;
    struct sim_master *older;
    uint64_t started_at;
};

void sim_master_start(struct sim *sim);
void sim_master_crash(struct sim *sim, bool silently);
void sim_master_revoke(struct sim *sim, uint32_t host); /* revokes the token of all peers of the host */
void sim_master_readable(struct sim *sim, struct sim_master *master, struct sim_conn *conn, int end);
void sim_master_idle(struct sim *sim, struct sim_master *master);
void sim_master_tick(struct sim *sim, struct sim_master *master);
void sim_master_event(struct sim *sim, struct sim_master *master, const struct pccl_master_event *event);
/* Some group gets another ring now, if it may. */
void sim_master_replan(struct sim *sim);
uint64_t sim_master_deadline(const struct sim_master *master);
bool sim_master_is_up(const struct sim *sim);

/* ---- peer_host.c ---- */

struct sim_link {
    struct pccl_id peer, ticket;
    bool incoming, up;
    bool reversed;         /* the receiver of the data dials, or has dialed */
    uint64_t number;       /* of its link_hello */
    uint64_t deadline;     /* waits for the other end to dial until then */
    struct sim_conn *conn; /* NULL: waits */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count, candidate;
    enum pccl_link_end worst; /* worst end of the candidates tried */
    uint64_t deaf_since;      /* since when nothing gets through; 0: it does */
    uint64_t needed_at;       /* the checker's: when it was last needed, or just made; 0: not looked at */
};

/* ---- app.c: the caller ---- */

enum sim_lane_state { SIM_LANE_IDLE, SIM_LANE_FLYING, SIM_LANE_FINISHED };
struct sim_lane {
    enum sim_lane_state state;
    uint32_t step, steps, attempt;
    struct pccl_peer_op *op;
    struct pccl_id members[SIM_HOSTS_MAX]; /* members whose lengths of blobs `op` returns */
    uint32_t member_count;
    bool decided;
    uint64_t act_at; /* not before */
    uint64_t since;
};
enum sim_app_state {
    SIM_APP_IDLE,
    SIM_APP_CONNECTING,
    SIM_APP_WORKING,
    SIM_APP_UPDATING,
    SIM_APP_OPTIMIZING,
    SIM_APP_SYNCING,
    SIM_APP_RESTING,
    SIM_APP_GONE
};
enum { SIM_CIRCLES = 2, SIM_CIRCLE_LANES = 2 };
enum sim_circle_state { SIM_CIRCLE_OVER, SIM_CIRCLE_FOUNDING, SIM_CIRCLE_WORKING, SIM_CIRCLE_LEAVING };
/* A subgroup, as its caller sees it. OVER: nothing is done in it in this chapter. */
struct sim_circle {
    enum sim_circle_state state;
    uint64_t name; /* 0: no subgroup */
    struct pccl_id list[SIM_HOSTS_MAX];
    uint32_t count, foundings;
    uint32_t made[SIM_CIRCLE_LANES];         /* steps since its creation */
    struct sim_lane lanes[SIM_CIRCLE_LANES]; /* the first one also creates it */
};
enum { SIM_STREAMS = 2 * SIM_HOSTS_MAX, SIM_STREAM_LANES = 3 };
/* Sends to another peer, or receives from it. */
struct sim_stream {
    struct pccl_id other; /* zero: unused */
    bool sends;
    uint64_t joint, sync;
    uint32_t made[2]; /* launched in that era, under either tag */
    uint32_t left;    /* number to be launched in this chapter */
    uint64_t act_at;  /* not before */
    struct sim_lane lanes[SIM_STREAM_LANES];
};
struct sim_app {
    enum sim_app_state state;
    bool manual; /* a scenario holds the strings */
    uint64_t joint;
    uint32_t chapter;
    uint32_t lane_count;
    struct sim_lane lanes[SIM_TAGS_MAX];
    struct sim_circle circles[SIM_CIRCLES];
    struct sim_stream streams[SIM_STREAMS];
    struct pccl_id members[SIM_HOSTS_MAX]; /* when the chapter began */
    uint32_t member_count;
    enum pccl_class gives_up; /* class for its next launch; NONE: a real one */
    bool pending_outstanding, pending_known, pending_value;
    uint64_t wakes_at; /* 0: nothing scheduled */
    bool call_over[8]; /* by enum pccl_call: set by call_done */
    enum pccl_status call_status[8];
    bool call_value[8];
    uint64_t since; /* start of the blocking call */
    uint64_t updates;
    bool describing; /* has asked for the topology report */
    uint64_t reports, unpictured;
    /* the synchronizations at the start of a chapter */
    uint32_t sync_count, sync_index, sync_attempt;
    bool sync_prepared, sync_asked;
    bool sync_old;     /* at the beginning of the chapter it had synchronized, or no peer had */
    bool sync_current; /* the last synchronization has succeeded: the state may advance */
};

/* ---- a caller's shared state, and its transfer: state.c ---- */

struct sim_donor {
    struct pccl_id id;
    bool holds_unequal;
};
struct sim_state {
    /* the caller's memory */
    uint64_t content, own, revision; /* own: a tensor that need not be the same everywhere */
    uint64_t mimics;                 /* a liar: other content with the same digest as `content`; 0: not a liar */
    bool torn;                       /* content that an unfinished transfer has written into */
    /* Its input to the call: */
    uint8_t strategy;
    bool unequal, odd; /* odd: another list of tensors */
    /* The transfer: */
    struct pccl_sync_plan plan;
    struct pccl_proof proof; /* proof of the content that it fetches */
    uint64_t prove_us;       /* the time that computing its proofs takes; 0: random */
    bool fetching, failed;
    uint64_t generation; /* number of the plan: events of an older one are void */
    uint64_t alone_since;
    struct sim_donor donors[SIM_DONORS_MAX];
    uint32_t donor_count;
};

/* The path that a peer tests. */
struct sim_test {
    bool running;
    uint64_t number, generation; /* events of an older generation are void */
    struct pccl_id peer, ticket;
};

/* The last use of a tag, of the whole group or of a subgroup. */
struct sim_use {
    struct sim_use *next_of_subgroup;
    uint64_t subgroup, pair, tag;
    bool begun;
    uint64_t joint, sync;
    uint32_t next;
};
/* Messages that one life of the master has sent to a peer. */
struct sim_tap {
    uint64_t boot, sequence;
    struct pccl_epoch view;
};

struct sim_peer {
    struct sim_process process; /* first */
    struct pccl_peer *machine;
    struct pccl_peer_config config;
    struct pccl_id id;
    uint32_t group;
    uint32_t link_count;
    struct sim_conn *control;
    struct sim_link links[SIM_LINKS_MAX];
    bool control_up;
    uint32_t dials, master_dials; /* dials of links, and of the master, that its machine has requested */
    bool attributes_may_change;   /* the checkers' */
    bool was_connected, end_checked, state_judged;
    uint64_t thread; /* thread of its program, which makes its calls */
    bool lies;       /* breaks the protocol, so it is rightly removed */
    struct sim_app app;
    struct sim_state state;
    struct sim_test test;
    /* checkers */
    struct sim_use uses[SIM_TAGS_KNOWN], *subgroup_uses; /* owned */
    struct sim_tap tap;
    struct pccl_epoch seen_epoch, seen_view;
    uint64_t told_ring; /* hash of the ring that the machine sent to its driver */
    uint32_t ops_gone;
    struct pccl_id seen_lineage;
    uint64_t seen_member_list;        /* the hash of the members that its callers count on */
    struct pccl_member *seen_members; /* owned */
    uint32_t seen_count;
    struct pccl_id *gone; /* owned: removed from its list */
    uint32_t gone_count;
    struct link_heard *heard; /* owned: reports to masters about its links */
    uint32_t heard_count;
    uint64_t heard_boot, heard_sequence;
    uint64_t to_hub_asked, from_hub_asked; /* 1 + the update before which an operation asked for it; 0: none has */
    uint64_t seen_joint, seen_sync, asked_round[PCCL_ROUND_KINDS];
    uint64_t unwell_until, master_unwell_until; /* stopped, cut off, reset: R9 */
    struct pccl_attributes seen_attributes;
    uint64_t commits;
    uint64_t commits_mark, updates_mark;
};

struct sim_peer *sim_peer_start(struct sim *sim, uint32_t host, uint16_t port, uint32_t group, bool manual);
void sim_peer_kill(struct sim *sim, struct sim_peer *peer, bool silently);
void sim_peer_readable(struct sim *sim, struct sim_peer *peer, struct sim_conn *conn, int end);
void sim_peer_tick(struct sim *sim, struct sim_peer *peer);
uint64_t sim_peer_deadline(const struct sim_peer *peer);
/*
 * Steps its machine, now, and returns the machine's answer. The caller checks it (sim_check_peer) and arms its timer.
 */
enum pccl_status sim_peer_step(struct sim *sim, struct sim_peer *peer, struct pccl_peer_event *event);
enum pccl_status sim_peer_call(struct sim *sim, struct sim_peer *peer, enum pccl_call call);
void sim_peer_measured_share(struct sim *sim, struct sim_peer *peer, const struct pccl_id *to, uint32_t rtt_us,
                             uint64_t rate);
void sim_peer_measured(struct sim *sim, struct sim_peer *peer, const struct pccl_id *to, uint32_t rtt_us,
                       uint64_t rate);
/* Steps its machine, checks it and arms its timer. */
void sim_peer_tell(struct sim *sim, struct sim_peer *peer, struct pccl_peer_event *event);
/* Reports to it that it has no descriptor. */
void sim_peer_note_shortage(struct sim *sim, struct sim_peer *peer);
extern const struct pccl_text sim_shortage;      /* text of its driver */
bool sim_peer_runs(const struct sim_peer *peer); /* alive, not stopped, machine there */
/* Ends links as silent when nothing has arrived for too long. */
void sim_peer_watch_links(struct sim *sim);
/* Simulates an invalid message of the other peer on the link that this one dialed. Returns false if it is not up.
 */
bool sim_peer_reject_link(struct sim *sim, struct sim_peer *peer, const struct pccl_id *other);
/* Open links between two living processes, in either direction. */
struct sim_conn *sim_peer_link(struct sim_peer *from, const struct pccl_id *to);
struct sim_peer *sim_peer_find(struct sim *sim, const struct pccl_id *id);

void sim_app_begin(struct sim *sim, struct sim_peer *peer);
void sim_app_later(struct sim *sim, struct sim_peer *peer, uint64_t delay);
/* A caller blocks in it. */
void sim_app_await(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op);
void sim_app_release(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op);
/* Leaves and ends the process. */
/* Kills the peer `subject` if it lives; for sim_at. */
void sim_on_gone(struct sim *sim, void *subject, uint64_t a, uint64_t b);
void sim_app_leave(struct sim *sim, struct sim_peer *peer);
/* The communicator is dead: the same process returns as a newcomer. */
void sim_app_return(struct sim *sim, struct sim_peer *peer);
uint64_t sim_peer_joint(const struct sim_peer *peer);
/* The first era, from this one on, that is sure to begin with an update. */
uint64_t sim_app_after_update(uint64_t joint);
/* A number that all callers agree on, because it follows from the seed and their position. */
uint64_t sim_app_hash(const struct sim *sim, const struct sim_app *app, uint64_t salt);

/* ---- launch.c: requests of callers, and their input ---- */

struct sim_request {
    uint64_t subgroup; /* its name; 0: the whole group */
    uint64_t tag, step;
    struct pccl_id other; /* other end of a send, ... */
    bool sends;           /* ... and true if this peer is the source */
    bool anybody;         /* receives from any sender, and `other` is 0 */
    uint8_t collective;   /* enum pccl_collective */
    bool tiny;
    uint64_t count;
    struct pccl_id counts;
    enum pccl_reduce_op reduction;
    uint32_t budget_ms; /* budget of an automatic codec; 0: the operation has none, or a share of the time */
    uint8_t budget_percent;
    const char *label; /* may be NULL */
    uint32_t timeout_ms;
    uint64_t deadline_us; /* deadline of the attempt that it repeats; 0: none */
    bool counted;         /* it requires the members of the last call, although its form does not depend on them */
    const struct pccl_id *members; /* ... it counts on these instead */
    uint32_t member_count;
    uint32_t root;              /* root, if there is one, by its rank in the members */
    enum pccl_class given_up;   /* NONE: a real launch */
    struct pccl_peer_op *after; /* the operation that returned the lengths of the blobs */
    void *user;
};
PCCL_MUST_CHECK enum pccl_status sim_app_launch(struct sim *sim, struct sim_peer *peer,
                                                const struct sim_request *request, struct pccl_peer_op **op);
/* Launches the request in an idle lane, and awaits it or not. */
PCCL_MUST_CHECK enum pccl_status sim_lane_launch(struct sim *sim, struct sim_peer *peer, struct sim_lane *lane,
                                                 struct sim_request *request);
/* Launches the second step of an operation on blobs after the first one, in the same lane. */
PCCL_MUST_CHECK enum pccl_status sim_lane_follow(struct sim *sim, struct sim_peer *peer, struct sim_lane *lane,
                                                 struct sim_request *request);
/* Releases the operation of a lane, which is idle then. Returns the outcome. */
enum pccl_class sim_lane_release(struct sim *sim, struct sim_peer *peer, struct sim_lane *lane);
/* The first members, in canonical order, that a peer's callers count on. Returns how many. */
uint32_t sim_members(const struct sim_peer *peer, struct pccl_id *members, uint32_t most);
/*
 * Returns the request that moves the blobs with the lengths from this operation. Returns false if it has none, or all
 * blobs have arrived with their lengths.
 */
bool sim_follows(const struct pccl_peer_op *op, uint32_t world, struct sim_request *request);
/* Returns the offset of the elements in a tiny contribution of a coalesced operation, and its sections. */
uint32_t sim_sections(const struct pccl_descriptor *descriptor, struct pccl_section sections[2]);
/* Returns true for collectives that first send lengths. */
bool sim_is_of_blobs(uint8_t collective);
/* Writes a peer's input of a tiny operation of `world` members. Returns its bytes. */
uint32_t sim_contribution(const struct pccl_descriptor *descriptor, uint64_t step, uint64_t tag, uint32_t world,
                          const struct sim_peer *peer, uint8_t bytes[PCCL_TINY_BYTES_MAX]);

/* Draws a collective; half of them are all-reduces. */
void sim_draw_collective(struct sim_request *request, uint64_t hash);
void sim_draw_budget(const struct sim *sim, struct sim_request *request);

/* ---- app_subgroups.c ---- */

/* Begins a chapter. */
void sim_subgroups_begin(struct sim *sim, struct sim_peer *peer);
/* Returns true if there is nothing more to do in subgroups in this chapter. */
bool sim_subgroups_work(struct sim *sim, struct sim_peer *peer);
/* Wakes the caller when they continue by themselves. */
void sim_subgroups_wait(struct sim *sim, struct sim_peer *peer);
void sim_subgroup_close(struct sim *sim, struct sim_peer *peer, struct sim_circle *circle);
/* Ends all: the communicator is dead. */
void sim_subgroups_over(struct sim *sim, struct sim_peer *peer);

/* ---- app_pairs.c: sends; each function as for subgroups ---- */

void sim_pairs_begin(struct sim *sim, struct sim_peer *peer);
bool sim_pairs_work(struct sim *sim, struct sim_peer *peer);
void sim_pairs_wait(struct sim *sim, struct sim_peer *peer);
void sim_pairs_over(struct sim *sim, struct sim_peer *peer);

/* ---- app_sync.c: a caller's synchronizations of its shared state ---- */

void sim_sync_draw_plan(struct sim *sim);
void sim_topology_draw_plan(struct sim *sim);
/* Begins a chapter. */
void sim_sync_begin(struct sim *sim, struct sim_peer *peer);
/* Returns false if there is nothing more to synchronize in this chapter. */
bool sim_sync_work(struct sim *sim, struct sim_peer *peer);
/* Makes the call with the current state. */
PCCL_MUST_CHECK enum pccl_status sim_sync_ask(struct sim *sim, struct sim_peer *peer);

/* ---- topology.c: paths, tests of them, and searches for rings ---- */

struct sim_path {
    uint64_t rate; /* 0: nothing gets through */
    uint32_t rtt_us;
};
/* Between two hosts. */
struct sim_path sim_path(const struct sim *sim, uint32_t from, uint32_t to);
/* 0: nothing gets through. */
void sim_path_set(struct sim *sim, const struct sim_peer *from, const struct sim_peer *to, uint64_t rate);
void sim_test_begin(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_test *test);
void sim_search_begin(struct sim *sim, const struct sim_master *master, uint64_t ticket,
                      const struct pccl_ring_problem *problem);
void sim_search_stop(struct sim *sim, const struct sim_master *master, uint64_t ticket);
void sim_searches_fini(struct sim *sim);
/*
 * For scenarios: ends the test with the path's current figures; answers the search, or reports that it could not be
 * tried.
 */
void sim_test_finish(struct sim *sim, struct sim_peer *peer);
bool sim_search_is_open(const struct sim *sim);
/* Returns the problem of the open search. */
const struct pccl_ring_problem *sim_search_problem(const struct sim *sim);
void sim_search_finish(struct sim *sim, bool broken);
/* ... with this ring, of positions in the present one. */
void sim_search_answer(struct sim *sim, const uint32_t *ring, bool proven);

/* ---- state.c: the abstract transfer of shared state ---- */

struct pccl_digest sim_state_digest(uint64_t content);
struct pccl_digest sim_state_shown(const struct sim_state *state); /* the digest that its vote brings */
struct pccl_proof sim_state_proof(uint64_t content);
void sim_state_init(struct sim *sim, struct sim_peer *peer);
void sim_state_planned(struct sim *sim, struct sim_peer *peer, const struct pccl_sync_plan *plan);
void sim_state_donor(struct sim *sim, struct sim_peer *peer, const struct pccl_id *donor, bool holds_unequal,
                     const struct pccl_proof *proof);
/* The call has ended, with everything that was done for it. */
void sim_state_over(struct sim_peer *peer);
/* For scenarios: the first write; the elected content has arrived (false: no donor has it); it cannot be had. */
void sim_state_touch(struct sim *sim, struct sim_peer *peer);
PCCL_MUST_CHECK bool sim_state_finish(struct sim *sim, struct sim_peer *peer);
void sim_state_break(struct sim *sim, struct sim_peer *peer);

/* ---- bulk.c: the abstract data path ---- */

void sim_bulk_start(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op);
void sim_bulk_stop(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op);
void sim_bulk_restart(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op);
void sim_bulk_peer_gone(struct sim *sim, struct sim_peer *peer);
/* invalid: because of an invalid message. */
void sim_bulk_link_down(struct sim *sim, struct sim_peer *peer, const struct pccl_id *other, bool invalid);
/* For scenarios: this peer's part is complete; or it fails. */
void sim_bulk_finish(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op);
void sim_bulk_break(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op, enum pccl_class class);
bool sim_bulk_is_moving(struct sim *sim, const struct sim_peer *peer, const struct pccl_peer_op *op);
void sim_bulk_fini(struct sim *sim);

/* ---- check_*.c: the invariants ---- */

/* One launch of one instance by one peer, as the checkers remember it. */
struct sim_launch {
    struct sim_launch *next; /* next launch of the same instance */
    struct sim_peer *peer;
    struct pccl_epoch start_view;
    uint64_t step;
    struct pccl_descriptor descriptor;
    bool tiny;
    uint32_t world;       /* size of the caller's list */
    struct pccl_id *list; /* owned; `world` members; NULL: no list */
    bool stillborn;       /* it was aborted before it was launched */
    bool complete;        /* bulk: its part is complete */
    bool done_sent;       /* the master has the report, in this start view */
    uint32_t restarts;    /* number for views that only re-planned */
    bool decided;
    bool counts; /* decided as a member, not because its communicator died */
    enum pccl_class class;
};
struct sim_instance {
    struct sim_instance *next_hashed;
    struct pccl_id lineage;
    uint32_t group;
    struct pccl_instance name;
    struct sim_launch *launches;
    bool failure_asked; /* a peer sent FAILED or ABORT_REQ */
};
struct sim_checks; /* check.h */
void sim_check_init(struct sim *sim);
void sim_check_fini(struct sim *sim);
void sim_check_about_to_launch(struct sim *sim, struct sim_peer *peer, uint64_t step, const struct pccl_launch *launch);
void sim_check_launched(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op); /* NULL: refused */
/* check_subgroups.c */
void sim_check_closing(struct sim *sim, struct sim_peer *peer, uint64_t name);
void sim_check_subgroup_ended(struct sim *sim, struct sim_peer *peer, uint64_t name);
void sim_check_subgroups_idle(struct sim *sim);
void sim_check_subgroups_fini(struct sim *sim);
void sim_check_restart(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op);
void sim_check_started(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op);
void sim_check_done(struct sim *sim, struct sim_peer *peer,
                    const struct pccl_peer_op *op); /* bulk: the driver reported done */
void sim_check_failing(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op);
void sim_check_decided(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op);
void sim_check_call(struct sim *sim, struct sim_peer *peer, enum pccl_call call, enum pccl_status status, bool value);
void sim_check_sent_by_peer(struct sim *sim, struct sim_peer *peer, const uint8_t *bytes, size_t length);
void sim_check_sent_by_master(struct sim *sim, struct sim_master *master, struct sim_conn *conn, const uint8_t *bytes,
                              size_t length);
void sim_check_peer(struct sim *sim, struct sim_peer *peer);
uint64_t sim_ring_hash(const struct pccl_id *ring, uint32_t count);
void sim_check_master(struct sim *sim, struct sim_master *master);
/* Its memory is lost. */
void sim_check_master_gone(struct sim *sim, const struct sim_master *master);
/* Handles a complaint of a machine that the other side broke the protocol, which no side does here. */
void sim_check_said(struct sim *sim, const char *who, uint32_t number, const char *line);
void sim_check_asked(struct sim *sim, struct sim_peer *peer, enum pccl_round_kind kind);
void sim_check_operations_fini(struct sim *sim);
/* check_sync.c */
void sim_check_sync_fini(struct sim *sim);
void sim_check_sync_said(struct sim *sim, struct sim_peer *peer, const struct pccl_msg *msg);
void sim_check_sync_heard(struct sim *sim, const struct sim_master *master, struct sim_peer *from,
                          const struct pccl_msg *msg);
void sim_check_sync_told(struct sim *sim, const struct sim_master *master, struct sim_peer *to,
                         const struct pccl_msg *msg);
void sim_check_syncs(struct sim *sim, const struct sim_master *master);
void sim_check_sync_returned(struct sim *sim, struct sim_peer *peer, enum pccl_status status);
void sim_check_sync_idle(struct sim *sim);
/* check_topology.c */
void sim_check_topology_fini(struct sim *sim);
void sim_check_topology_heard(struct sim *sim, const struct sim_master *master, struct sim_peer *from,
                              const struct pccl_msg *msg);
void sim_check_topology_told(struct sim *sim, const struct sim_master *master, struct sim_peer *to,
                             const struct pccl_msg *msg);
void sim_check_topology(struct sim *sim, const struct sim_master *master);
void sim_check_optimized(struct sim *sim, struct sim_peer *peer, enum pccl_status status);
void sim_check_topology_report(struct sim *sim, const char *text, size_t length);
void sim_check_topology_time(struct sim *sim);
void sim_check_topology_idle(struct sim *sim);
/* A peer is removed because its shared state does not match the others'. */
void sim_check_state_refused(struct sim *sim, const struct sim_master *master, struct sim_peer *peer,
                             const char *reason);
void sim_check_histories(struct sim *sim);
/* After convergence: all peers agree, and nothing is left over. */
void sim_check_converged(struct sim *sim);
void sim_check_idle(struct sim *sim);
void sim_check_waiting(struct sim *sim);
/* Notes a message that the master takes; its reports about links. */
void sim_check_heard(struct sim *sim, const struct sim_master *master, const struct sim_conn *conn,
                     const struct pccl_frame *frame, const struct pccl_msg *msg);
void sim_check_link_asked(struct sim *sim, struct sim_peer *from, const struct pccl_id *to);
void sim_check_meshes(struct sim *sim);
void sim_check_dialed(struct sim *sim, struct sim_peer *peer, const struct pccl_id *to);
void sim_check_idle_links(struct sim *sim);
/* Marks the time until which trouble of the process may be due to a fault. */
void sim_check_unwell(struct sim *sim, const struct sim_process *process, uint64_t until);
void sim_check_conn_unwell(struct sim *sim, const struct sim_conn *conn, uint64_t until);
void sim_check_hosts_unwell(struct sim *sim, uint32_t a, uint32_t b);

/* ---- faults.c ---- */

enum sim_fault {
    SIM_FAULT_KILL,
    SIM_FAULT_HOST_LOSS,
    SIM_FAULT_STOP_PEER,
    SIM_FAULT_STOP_MASTER,
    SIM_FAULT_CRASH_MASTER,
    SIM_FAULT_RESET_CONTROL,
    SIM_FAULT_HALF_OPEN,
    SIM_FAULT_RESET_LINK,
    SIM_FAULT_CUT,
    SIM_FAULT_ISOLATE,
    SIM_FAULT_JOIN,
    SIM_FAULT_LEAVE,
    SIM_FAULT_ABORT,
    SIM_FAULT_WITHDRAW,
    SIM_FAULT_STRANGER,
    SIM_FAULT_SLOW,
    SIM_FAULT_HANDSHAKE, /* of secured seeds */
    SIM_FAULT_REPLAN,    /* of half of the seeds: no fault, but a new ring in the middle of operations */
    SIM_FAULT_STARVE,    /* of a quarter of the seeds: a peer has no descriptor for a while */
    SIM_FAULT_DRAIN,     /* of half of the seeds: a peer asks for its drain */
    SIM_FAULTS
};

/* Drawn from the seed. */
struct sim_plan {
    uint32_t weights[SIM_FAULTS];
    uint32_t weight_sum;
    uint64_t fault_mean_us; /* between faults */
    uint64_t faults_end_us;
    uint32_t peers, groups, tags, hosts;
    uint64_t delay_low_us, delay_high_us;
    uint64_t pause_us;        /* pause of applications between steps */
    uint64_t bulk_us;         /* longest transfer */
    uint64_t user_timeout_us; /* time after which TCP breaks a connection with unacknowledged bytes */
    uint32_t bulk_percent, bulk_failure_percent, mismatch_permille, drop_percent, late_percent, loss_percent;
    uint32_t blind_percent, split_percent, timers_first_percent, no_probe_percent;
    uint32_t sync_percent, second_percent, state_failure_percent;
    uint32_t drift_permille, lazy_permille, jump_permille, odd_permille, strategy_permille;
    bool unequal;
    uint64_t state_us; /* longest transfer of shared state */
    uint32_t optimize_percent, stall_permille, search_failure_permille, wayless_permille;
    uint64_t search_us; /* longest search for a ring */
    uint64_t test_us;   /* longest test; 0: by its limit */
    bool equal_paths;
    bool subgroups;        /* callers found some */
    uint32_t wall_percent; /* share of the peers that start behind a NAT or a firewall */
    bool pairs;            /* callers send to one another */
    bool divergent;        /* callers' reactions differ between peers: only deadlines bring them together */
    bool keeps_run;        /* the master has a state directory, where it notes that a run lives */
    uint32_t population_max;
    struct pccl_master_config master;
    struct pccl_peer_config peer;
};

void sim_faults_begin(struct sim *sim);
/* A master, and no faults by chance: for scenarios. */
void sim_quiet_begin(struct sim *sim);
void sim_fault(struct sim *sim, enum sim_fault kind);
void sim_fault_event(struct sim *sim, void *subject, uint64_t kind, uint64_t unused);
void sim_faults_end(struct sim *sim);
/* Draws whether this new process is behind a NAT or a firewall. */
void sim_faults_wall(struct sim *sim, struct sim_process *process); /* heals everything */
uint32_t sim_population(const struct sim *sim);

/* ---- the world ---- */

struct sim_totals {
    uint64_t seeds, events, commits, aborts, crashes, departures, kills, joins, expulsions, stops, resets, half_resets,
        reversed, updates, steps, classes[PCCL_CLASS_COUNT], collectives[PCCL_COLLECTIVES], tiny_commits, hash, syncs,
        syncs_failed, fetches, fetches_failed, elections, state_refusals, foundings, founded, subgroup_commits,
        subgroups_ended, pair_commits, chosen, handshakes_failed, optimizations, no_rings, optimizations_withdrawn,
        tests, tests_begun, tests_failed, searches, adoptions, reports, replans, restarts, hub_views, drains;
};

struct sim {
    uint64_t seed;
    bool trace;
    uint64_t hash_seed;
    bool no_probes;             /* the master is short of descriptors */
    bool mute_uses, mute_state; /* for the audit: other checkers must find the bug as well */
    /* oom_length allocations of the machines, from number oom_at on, fail; 0: none. */
    uint64_t oom_at, oom_length, oom_count;
    bool oom_paused;
    uint64_t now, sequence;
    struct sim_event *heap;
    uint32_t heap_count, heap_capacity;
    struct pccl_prng prng;
    uint64_t hash;
    struct sim_plan plan;
    uint64_t healed_at; /* all are members again */
    bool bulk_by_hand;  /* a scenario completes bulk operations */
    bool state_by_hand; /* ... and transfers of shared state */
    bool tests_by_hand, searches_by_hand;
    bool lies;    /* a member lies */
    bool secured; /* connections are encrypted */
    struct sim_shake_fault shake_fault;
    uint32_t revoked;             /* host whose peers may not join; 0: none */
    bool behind_one;              /* the master sees all new connections as from one address */
    bool faults_stopped, resting; /* applications stop at joint round rest_joint */
    uint64_t rest_joint;

    struct sim_master *master; /* the newest; may be down */
    uint64_t boots;
    bool run_noted; /* the master has noted the run for the next one */
    struct sim_peer *peers[SIM_PEERS_MAX];
    uint32_t peer_count, returning; /* incarnations; processes that will return soon */
    uint8_t cuts[SIM_HOSTS_MAX][SIM_HOSTS_MAX][SIM_PLANES];
    bool host_down[SIM_HOSTS_MAX];
    uint16_t next_port[SIM_HOSTS_MAX];
    struct sim_conn *conns; /* alive, newest first */
    struct sim_conn **conn_by_id;
    uint64_t conn_count, conn_capacity;
    uint64_t backs; /* number of connections that a sender has requested its receiver to dial */
    uint64_t path_rates[SIM_HOSTS_MAX][SIM_HOSTS_MAX]; /* 0: from the seed */
    struct sim_search *searches;                       /* newest first */
    struct sim_bulk *bulks, *bulks_by_name[1024];      /* the same, by hash: scenarios have thousands */
    struct sim_checks *checks;
    struct sim_memory driver_memory; /* frame readers */
    struct pccl_memory driver_hook;
    struct sim_totals totals;
    void *jump; /* jmp_buf: target of sim_fail */
    char failure[512];
    struct pccl_wire_scratch scratch, tap_scratch;
};

void sim_init(struct sim *sim, uint64_t seed, bool trace, bool mute_uses);
void sim_fini(struct sim *sim);
/* One whole random run. */
void sim_run_seed(struct sim *sim);
/* One directed run in which the allocations from number `at` on fail. Returns how many the machines made. */
uint64_t sim_run_oom(struct sim *sim, uint64_t at, uint64_t length);
/* The state that all must reach after the faults have stopped. */
void sim_converge(struct sim *sim);

#endif
