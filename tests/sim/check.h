/* State of the checkers during a run. Only check_*.c may include it. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "master/state.h"
#include "peer/state.h"
#include "sim.h"

enum { INSTANCE_BUCKETS = 1024 };

/* I1: one member list per epoch of a run. */
struct epoch_seen {
    struct epoch_seen *next;
    struct pccl_id lineage;
    struct pccl_epoch epoch;
    struct pccl_member *members;
    uint32_t count;
};
/* I1: one ring per view of a group. */
struct view_seen {
    struct view_seen *next;
    struct pccl_id lineage;
    uint32_t group;
    struct pccl_epoch view;
    struct pccl_id *ring, *order; /* owned: members along the ring, and in canonical order */
    uint32_t count;
    struct pccl_cost cost;
    bool replans; /* it only re-planned when the master made it */
    bool undone;  /* no member had received it when a restarted master continued from an older one */
};
/* E1: one result of each creation. */
struct subgroup_seen {
    struct subgroup_seen *next;
    struct pccl_id lineage;
    uint64_t name, hash;
    uint64_t boot, ended_boot; /* boot of the master that created it; of one that reported its end */
    bool closed;
    struct pccl_id *members; /* owned, in canonical order */
    uint64_t *told_boots;    /* owned: boot of the master that reported the end to each of them */
    uint32_t count;
};
/* State of a peer's link in its last report to the master. */
struct link_heard {
    struct pccl_id to;
    bool up;
    uint64_t down_since;
};
/* One outcome per round. */
struct round_seen {
    struct round_seen *next;
    struct pccl_id lineage;
    uint8_t kind;
    uint64_t round;
    bool value;
    bool has_attributes;
    struct pccl_attributes attributes;
    struct sim_peer *by;
};
/* I2: two peers that decided differently; at most one of them may survive. */
struct conflict {
    struct conflict *next;
    struct sim_peer *one, *other;
    struct pccl_instance name;
};

struct sim_checks {
    struct sim_instance *buckets[INSTANCE_BUCKETS];
    struct epoch_seen *epochs; /* newest first */
    struct view_seen *views;
    struct subgroup_seen *subgroups;
    struct round_seen *rounds;
    struct conflict *conflicts;
    struct roll *rolls;
    struct sync_round *sync_rounds; /* newest first */
    struct sync_shadow *sync_shadows;
    struct path_heard *paths;
    struct test_told *tests; /* newest first */
    struct optimized *optimized;
    struct ring_shot *shots;
    bool optimizing; /* state of the master when it was last examined */
    uint64_t optimizing_since, optimizing_boot;
    /* The launch that has not returned: the outcome may arrive before it returns. */
    struct sim_peer *launching;
    uint64_t step;
    const struct pccl_launch *launch;
    struct pccl_epoch master_epoch;
    uint64_t master_boot, master_joint;
    struct pccl_id over[PCCL_RUNS_OVER_MAX]; /* runs that ended under an earlier master, as a circular buffer */
    uint32_t over_count;
    struct pccl_id founded;               /* last run that a newcomer has created */
    uint64_t continued_boot;              /* boot of the last master that has continued a run of an earlier one */
    uint64_t updating_boot, first_update; /* round that was open when this master was first seen */
};

struct sim_instance *sim_instance_find(struct sim *sim, const struct pccl_id *lineage, uint32_t group,
                                       const struct pccl_instance *name, bool create);
struct sim_launch *sim_launch_of(const struct sim_instance *instance, const struct sim_peer *peer);
const struct view_seen *sim_view_find(const struct sim *sim, const struct pccl_id *lineage, uint32_t group,
                                      const struct pccl_epoch *view);
struct subgroup_seen *sim_subgroup_find(const struct sim *sim, const struct pccl_id *lineage, uint64_t name);
void sim_check_subgroups_told(struct sim *sim, const struct sim_master *master, const struct sim_peer *to,
                              const struct pccl_msg *msg);
/* Check success of a member: in a subgroup; in creating one. */
void sim_check_subgroup_commit(struct sim *sim, const struct sim_peer *peer, const struct pccl_peer_op *op);
void sim_check_subgroup_founded(struct sim *sim, const struct sim_peer *peer, const struct pccl_peer_op *op);
/* Returns true for a member that the master counts on. */
bool sim_is_survivor(const struct sim *sim, const struct sim_peer *peer);
void sim_check_conflicts(struct sim *sim);
void sim_check_master_state(struct sim *sim, const struct sim_master *master);
void sim_check_peer_state(struct sim *sim, const struct sim_peer *peer);
void sim_check_end_of_life(struct sim *sim, struct sim_peer *peer);
void sim_check_expelled(struct sim *sim, const struct sim_master *master, struct sim_peer *peer,
                        const struct pccl_msg_expelled *expelled);
void sim_check_removals(struct sim *sim, struct sim_master *master);
/* Checks a commit that is sent to a member with this launch. */
void sim_check_direct_use(struct sim *sim, const struct sim_master *master, const struct sim_instance *instance,
                          const struct sim_launch *launch);
void sim_check_new_view(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group);
void sim_check_updated(struct sim *sim, const struct sim_master *master);
void sim_check_unreachable(struct sim *sim, const struct sim_master *master, const struct sim_peer *peer);
void sim_check_roll(struct sim *sim, const struct sim_master *master);
void sim_check_conduct_fini(struct sim *sim);
/* Returns true if these are the last figures of a path reported to this life of the master; 0: no figure. */
bool sim_path_was_told(struct sim *sim, uint64_t boot, const struct pccl_id *from, const struct pccl_id *to,
                       uint64_t rate, uint64_t rtt_us);
const char *sim_instance_text(const struct pccl_instance *name);

#endif
