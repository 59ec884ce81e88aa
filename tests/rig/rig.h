/*
 * The kill rig of the data plane: the exchanges of several ranks in one process, joined by bounded byte queues instead
 * of sockets, under a scheduler that picks the next small step from a seed. A model of the master decides outcomes by
 * PROTOCOL 6. Faults (kills, lost connections, suspended ranks) occur at steps given in advance, so that a fault can be
 * placed at every step of a run.
 */
#ifndef PCCL_TESTS_RIG_H
#define PCCL_TESTS_RIG_H

#include "collective/exchange.h"
#include "core/prng.h"
#include "support.h"

enum {
    RIG_RANKS_MAX = 6,
    RIG_POOL_MAX = 3,
    RIG_OPS_MAX = 4,
    RIG_ROUNDS_MAX = 2,
    RIG_VIEWS = 1 << RIG_RANKS_MAX, /* a view is a set of ranks: bits */
    RIG_TENSORS_MAX = 5,
    RIG_USES_MAX = 64,
    RIG_FAULTS_MAX = 4,
    RIG_CONNECTIONS_MAX = RIG_RANKS_MAX * (RIG_RANKS_MAX - 1) * RIG_POOL_MAX,
    RIG_PIPE_MAX = 4096,
    RIG_FRAME_MAX = 256,
    RIG_MAIL_MAX = 512,
    RIG_CANARY_BYTES = 64,
    RIG_NOBODY = 99,
};

/* Wrong behavior that is planted on purpose, to prove that the checks notice it. */
#define RIG_PLANTS(X)                                                                                                  \
    X(flip, "a bit of a payload flips on its way")                                                                     \
    X(misplace, "payload bytes are written one byte too far")                                                          \
    X(renumber, "a segment comes under the number of another group or step")                                           \
    X(repeat, "a segment comes twice: under its own step, then instead of the next one")                               \
    X(unrestored, "a byte of a restored buffer is lost")                                                               \
    X(late_write, "bytes are delivered after the stop to where they were to go before it")                             \
    X(stale_pointer, "a departure points into the caller's memory after the stop")                                     \
    X(lost_frame, "a frame is lost on a connection that lives")                                                        \
    X(lost_wake, "the driver does not hear that a lane is writable")                                                   \
    X(early_commit, "the master commits although one rank is not done")                                                \
    X(split_outcome, "the master tells one rank commit and another one abort")                                         \
    X(deaf_master, "the master does not notice a death")                                                               \
    X(double_done, "a rank is told twice that it is done")                                                             \
    X(quiet_failure, "a rank does not tell the master of its failure")                                                 \
    X(overrun, "a byte behind the result is written")                                                                  \
    X(exchanged, "a rank takes the parts of two members for one another's")                                            \
    X(lost_own, "the own part does not get into a rank's result")                                                      \
    X(exact_own, "a rank keeps its own part as it was, and the others get it packed")                                  \
    X(repacked, "a packed piece is unpacked and packed again before it is sent")                                       \
    X(exact_sum, "who finishes a sum keeps it as it was, and the others get it packed")                                \
    X(recounted, "a rank counts its random numbers from elsewhere")                                                    \
    X(reseeded, "a rank rounds by another seed than that of the operation and its own")                                \
    X(hidden, "what is not finite is packed as if it were")                                                            \
    X(packed_input, "after an abort a part that is sent packed is as the others would have got it")                    \
    X(swapped, "two parts of a rank's result have changed places")                                                     \
    X(unscaled, "a rank contributes its elements to a premultiplied sum as they are")                                  \
    X(misdirected, "a rank sends one member what is for another")                                                      \
    X(early_arrival, "a part is told to be there before all of it is")                                                 \
    X(lost_arrival, "a part that has come is not told")                                                                \
    X(wrong_root, "a rank takes the member behind the root for the root")                                              \
    X(other_cut, "a rank cuts a tensor by figures of its own instead of those of the view")                            \
    X(leak, "a block is not given back")
enum rig_plant {
    RIG_PLANT_none,
#define RIG_PLANT_ENUM(name, about) RIG_PLANT_##name,
    RIG_PLANTS(RIG_PLANT_ENUM)
#undef RIG_PLANT_ENUM
        RIG_PLANT_COUNT
};

/* ---- worlds ---- */

struct rig_op {
    struct pccl_descriptor descriptor;
    uint32_t segment_elements; /* 0: as in the plan */
    uint32_t in_place;         /* bit for each rank */
    uint32_t root;             /* root, if there is one, while it lives */
    bool given;                /* parts have these lengths, by rank; the descriptor's count is their sum */
    uint32_t lengths[RIG_RANKS_MAX];
    uint32_t tensor_count; /* coalesced: number of tensors of `count` elements; the last has another reduction */
    uint32_t tensors[RIG_TENSORS_MAX];
    uint32_t pairs[RIG_RANKS_MAX][RIG_RANKS_MAX]; /* all-to-all: lengths by sender and receiver */
    uint32_t odd_rank;  /* this rank's first attempt asks for a different operation; RIG_NOBODY: none does */
    bool odd_in_length; /* by fewer elements; otherwise by another reduction, root, label or block of the codec */
};

struct rig_spec {
    uint64_t seed;
    uint32_t ranks, pool, op_count, rounds; /* each operation must succeed `rounds` times, one after the other */
    uint32_t ring[RIG_RANKS_MAX];           /* ring of the first view; later rings leave out the dead */
    struct pccl_id ids[RIG_RANKS_MAX];
    struct rig_op ops[RIG_OPS_MAX];
    bool direct;      /* and a link for each pair */
    bool long_path;   /* first steps are sent before READY */
    bool mixed_paths; /* every second operation is on a path of the other kind */
    bool long_turns;  /* turns of given lengths continue to the end of their parts */
    bool few; /* the last stripe of an all-reduce along the ring has only full segments; a direct broadcast is a star */
    bool linked;   /* all links stand when the first operation starts */
    bool redialed; /* a lost connection is replaced even if its lane has others */
    bool uneven;   /* some connections and ranks are much slower than others */
    bool whole;    /* as many bytes move at a time as there is room for */
    uint32_t pipe_bytes;
    size_t window_bytes, scratch_bytes;
    uint8_t *inputs[RIG_OPS_MAX][RIG_ROUNDS_MAX][RIG_RANKS_MAX];
    uint8_t *references[RIG_OPS_MAX][RIG_ROUNDS_MAX][RIG_VIEWS]; /* made when first needed */
    uint32_t reference_uses[RIG_OPS_MAX][RIG_ROUNDS_MAX][RIG_VIEWS];
};

/* Makes a world of the exhaustive part. Returns false if no world has this number. */
bool rig_spec_listed(struct rig_spec *spec, uint32_t number);
void rig_spec_random(struct rig_spec *spec, uint64_t seed);
void rig_spec_release(struct rig_spec *spec);
void rig_spec_print(const struct rig_spec *spec);
uint32_t rig_ring_of(const struct rig_spec *spec, uint32_t view, uint32_t *ranks); /* in ring order; their number */
struct pccl_cost rig_cost(const struct rig_spec *spec, uint32_t op);

/* One rank's place in an operation and view: the ranks it names, and the memory of its caller. */
struct rig_place {
    uint32_t ring[RIG_RANKS_MAX], positions[RIG_RANKS_MAX]; /* by rank in the ring */
    uint64_t starts[RIG_RANKS_MAX * RIG_RANKS_MAX + 1];     /* of parts, by position; in an all-to-all of all pairs */
    uint32_t parts;
    struct pccl_seat seat;
    bool in_parts;    /* the tensor is */
    bool gives, gets; /* whether its input is read, and whether it has a result */
    size_t input_bytes, result_bytes;
    size_t own; /* offset of its part in the longer of the two, or in the root's */
    size_t part;
    struct pccl_descriptor descriptor;
};
struct rig_place rig_place_of(const struct rig_spec *spec, uint32_t op, uint32_t view, uint32_t rank);
/* Returns the place of a rank that takes the next one for the root. */
struct rig_place rig_odd_place_of(const struct rig_spec *spec, uint32_t op, uint32_t view, uint32_t rank);
/* Returns true if a rank may have its result while it still has to pass on the others' results. */
bool rig_passes_on(const struct rig_op *op);
/* Returns a rank's factor in a premultiplied sum. */
static inline double rig_factor(uint32_t rank) { return 1.75 - 0.75 * rank; }
/* Returns the starts for the engine: NULL for equal parts. */
const uint64_t *rig_starts(const struct rig_place *place);
struct rig_tensor {
    const uint8_t *input;
    uint8_t *result;
    uint64_t count;
    enum pccl_datatype datatype;
    enum pccl_reduce_op reduction;
};
/* Lists the tensors of a coalesced operation, without their memory. Returns their number; 0 for one tensor. */
uint32_t rig_tensors(const struct rig_op *op, struct rig_tensor *tensors);
/* Makes a plan, which refers to the place. Returns false if the rank is alone. */
bool rig_plan(const struct rig_spec *spec, uint32_t op, const struct rig_place *place, struct pccl_plan *plan);
/* Returns the exact result of the operation for this rank in this view, or NULL if it has none. */
const uint8_t *rig_reference(struct rig_spec *spec, uint32_t op, uint32_t round, uint32_t use, uint32_t view,
                             uint32_t rank);
/* Plans made from now on are for this operation. */
void rig_plan_for(const struct rig_spec *spec, const struct rig_op *op);
/* The next plan has segments of another length. */
void rig_cut_otherwise(void);
/*
 * Makes the ranks of this world pack elements from now on; NULL: a reference does. Returns the world before. In
 * packing.c.
 */
struct rig_world *rig_packs_for(struct rig_world *world);

/* ---- faults ---- */

enum rig_fault_kind { RIG_KILL, RIG_BREAK, RIG_FREEZE, RIG_STARVE };
struct rig_fault {
    enum rig_fault_kind kind;
    uint32_t step;  /* before this step */
    uint32_t which; /* KILL, FREEZE, STARVE (one allocation fails): rank; BREAK: number of the connection */
};

/* ---- the world while it runs ---- */

struct rig_buffer { /* canary, data, canary */
    uint8_t *block, *data;
    size_t block_bytes, data_bytes;
};

enum rig_state { RIG_RUNNING, RIG_DONE, RIG_FAILED, RIG_STOPPED };
struct rig_attempt { /* one instance of an operation at one rank */
    struct rig_world *world;
    uint32_t rank, op, round, use, view_number, view;
    enum rig_state state;
    struct pccl_transfer *transfer; /* NULL: could not start, or was stopped */
    struct rig_place place;
    struct rig_buffer input, result; /* in place: no result */
    uint8_t *given, *got;            /* the rank's input and result in them */
    bool in_place, odd, at_rest;
    bool refused;                       /* the exchange refused it */
    uint32_t arrived;                   /* bit for each position whose part was reported as arrived */
    bool lost;                          /* failed after it was done */
    uint32_t links_lost;                /* connections that its lanes have lost since it started */
    struct pccl_transfer_config config; /* refers to the following */
    struct pccl_id ring[RIG_RANKS_MAX];
    uint32_t positions[RIG_RANKS_MAX];
    uint64_t starts[RIG_RANKS_MAX * RIG_RANKS_MAX + 1];
    struct pccl_extent inputs[RIG_RANKS_MAX], results[RIG_TENSORS_MAX];
    struct pccl_section sections[RIG_TENSORS_MAX];
    struct rig_attempt *next;
};

enum rig_mail_kind { RIG_MAIL_DONE, RIG_MAIL_FAILED, RIG_MAIL_KILLED, RIG_MAIL_OUTCOME, RIG_MAIL_VIEW };
struct rig_mail {
    enum rig_mail_kind kind;
    uint32_t op, use, view_number, view;
    bool committed;
    enum pccl_class class;
};
struct rig_mailbox {
    struct rig_mail mails[RIG_MAIL_MAX];
    uint32_t first, count;
};

enum rig_life { RIG_ALIVE, RIG_FROZEN, RIG_ZOMBIE /* thawed, without knowing that it was removed */, RIG_DEAD };
struct rig_rank {
    struct rig_world *world;
    uint32_t number;
    enum rig_life life;
    bool thaws; /* FROZEN: thaws after it was removed */
    struct test_memory memory;
    struct pccl_exchange *exchange;
    uint32_t view_number, view;
    struct rig_attempt *running[RIG_OPS_MAX]; /* started and not stopped */
    uint32_t use[RIG_OPS_MAX];                /* use number of the next or the running attempt */
    uint32_t rounds[RIG_OPS_MAX];             /* committed so far */
    uint64_t tombstones[RIG_OPS_MAX];         /* bit for each use */
    struct rig_mailbox to_master, from_master;
    bool writable[RIG_RANKS_MAX][2];                /* peer, outgoing */
    bool rests;                                     /* until the driver lets the exchange continue */
    uint64_t announced[RIG_OPS_MAX][RIG_RANKS_MAX]; /* bit for each use */
};

struct rig_pipe {
    uint32_t first, count;
    uint8_t bytes[RIG_PIPE_MAX];
};

struct rig_end {            /* one side's view of a connection */
    struct pccl_lane *lane; /* while it is open */
    bool open;              /* the exchange knows of it */
    bool fresh;             /* idle, and not asked for a frame since then */
    bool sending;
    struct pccl_departure departure;
    uint8_t out[RIG_FRAME_MAX];
    uint32_t out_bytes, out_done; /* the frame; then the payload */
    uint32_t payload_done;
    bool receiving; /* payload */
    struct pccl_arrival arrival;
    uint8_t in[RIG_FRAME_MAX];
    uint32_t in_done, payload_in;
    uint8_t *late; /* plant late_write */
};

struct rig_connection {
    uint32_t from, to;
    bool broken;
    bool dialed;              /* at least once */
    bool late[2];             /* this end notices the break only when no other step is left */
    struct rig_end ends[2];   /* [0]: the sender of the data, which dialed; [1]: the other one */
    struct rig_pipe pipes[2]; /* [0]: from ends[0] to ends[1] */
};

struct rig_decision {
    uint32_t done; /* ranks */
    uint32_t view; /* when it was decided */
    bool decided, committed;
    bool held;                         /* a failure that waits for the view without its cause */
    uint32_t committed_by, aborted_by; /* ranks that have received it */
};

struct rig_totals {
    uint64_t worlds, runs, kills, breaks, freezes, starved, commits, aborts, messages, steps;
    uint64_t held;     /* segments that arrived before the start, or before their stripe was opened */
    uint64_t used;     /* number of starts that found some */
    uint64_t odd_held; /* number in operations in which peers differ */
};

struct rig_world {
    struct rig_spec *spec;
    struct pccl_prng prng, plant_prng;
    const struct rig_fault *faults;
    uint32_t fault_count;
    bool trace;
    pccl_assert_handler on_assert;
    enum rig_plant plant;
    bool planted;
    bool failed; /* a check failed; the reason is in `words` */
    char reason[512];
    uint32_t step;
    struct rig_rank ranks[RIG_RANKS_MAX];
    struct rig_connection *connections;
    uint32_t connection_count;
    /* The scheduler's record of each connection: the steps that are possible at its ends. */
    uint8_t possible[2 * RIG_CONNECTIONS_MAX]; /* by number and side */
    uint32_t possible_count;
    bool stale[RIG_CONNECTIONS_MAX]; /* to be examined again: those in the list */
    uint32_t stale_list[RIG_CONNECTIONS_MAX];
    uint32_t stale_count;
    uint32_t priorities[RIG_RANKS_MAX + 2 * RIG_CONNECTIONS_MAX];
    struct rig_attempt *attempts;
    /* the model of the master */
    uint32_t view_number, view;
    struct rig_decision decisions[RIG_OPS_MAX][RIG_USES_MAX];
    uint32_t disturbances; /* upper bound of the failures each operation may see */
    struct rig_totals *totals;
};

/* Runs the spec once under these faults. Returns false if a check failed, with the reason in world->words. */
bool rig_run(struct rig_world *world, struct rig_spec *spec, const struct rig_fault *faults, uint32_t fault_count);

void rig_violation(struct rig_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rig_trace(struct rig_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns true if the fault must be planted now. At most once in a run, sometimes never. */
bool rig_plant(struct rig_world *world, enum rig_plant plant);

/* ranks.c */
bool rig_rank_init(struct rig_world *world, uint32_t number);
void rig_rank_fini(struct rig_rank *rank);
bool rig_may_start(const struct rig_rank *rank, uint32_t op);
void rig_start(struct rig_rank *rank, uint32_t op);
void rig_stop(struct rig_attempt *attempt, bool committed);
void rig_take_order(struct rig_rank *rank);
bool rig_rank_finished(const struct rig_rank *rank);
void rig_check_at_rest(struct rig_rank *rank);
void rig_check_state(struct rig_rank *rank);
void rig_release_attempts(struct rig_world *world);

/* links.c */
void rig_links_init(struct rig_world *world);
bool rig_wants(const struct rig_rank *rank, uint32_t to);
void rig_open_end(struct rig_world *world, struct rig_connection *connection, uint32_t side);
void rig_close_end(struct rig_world *world, struct rig_connection *connection, uint32_t side);
void rig_break(struct rig_world *world, struct rig_connection *connection);
bool rig_may_next(const struct rig_world *world, const struct rig_connection *connection, uint32_t side);
void rig_next(struct rig_world *world, struct rig_connection *connection, uint32_t side);
bool rig_may_move(const struct rig_world *world, const struct rig_connection *connection, uint32_t side);
void rig_move(struct rig_world *world, struct rig_connection *connection, uint32_t side);
bool rig_may_deliver(const struct rig_connection *connection, uint32_t side);
void rig_deliver(struct rig_world *world, struct rig_connection *connection, uint32_t side);
bool rig_may_dial(const struct rig_world *world, const struct rig_connection *connection);
void rig_dial(struct rig_world *world, struct rig_connection *connection);
/* Notes a change on this lane. Call when something has changed. */
void rig_touch(struct rig_world *world, uint32_t from, uint32_t to);
/* Returns true if nothing in progress at this rank points into the block. */
bool rig_points_into(const struct rig_world *world, uint32_t rank, const uint8_t *block, size_t bytes);

/* master.c */
void rig_post(struct rig_world *world, struct rig_mailbox *box, const struct rig_mail *mail);
struct rig_mail rig_fetch(struct rig_mailbox *box);
void rig_master_hears(struct rig_world *world, uint32_t rank);
void rig_master_buries(struct rig_world *world, uint32_t gone);

static inline struct rig_rank *rig_end_rank(struct rig_world *world, const struct rig_connection *connection,
                                            uint32_t side)
{
    return &world->ranks[side == 0 ? connection->from : connection->to];
}

#endif
