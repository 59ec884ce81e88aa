/*
 * Subgroups: who is in them, how they are founded and end, and the links that they rely on
 * (PROTOCOL 15). Their operations are decided as all others (operations.h); those who take part in
 * one are its participants, be they the whole group or a subgroup.
 */
#ifndef PCCL_MASTER_SUBGROUPS_H
#define PCCL_MASTER_SUBGROUPS_H

#include "master/state.h"
#include "wire/subgroup.h"

/* ---- who takes part ---- */

/* Borrowed: valid until a member leaves. */
struct pccl_participants {
    struct pccl_remote **members; /* by seat: the parts of an operation are in this order */
    uint32_t count;
    const uint32_t *ring;  /* the seat of each place in the ring; NULL: the same number */
    const uint32_t *ranks; /* of each seat, the place in canonical order; NULL: remote->rank */
};

/* In an operation; of a founding, as far as its list is known, else the whole group. */
static inline struct pccl_participants pccl_master_participants(const struct pccl_peer_group *group,
                                                                const struct pccl_operation *op)
{
    const struct pccl_subgroup *subgroup = op->subgroup;
    if (subgroup == NULL)
        return (struct pccl_participants){.members = group->ring, .count = group->ring_count};
    return (struct pccl_participants){subgroup->members, subgroup->count, subgroup->ring, subgroup->ranks};
}

/* Of a member of the subgroup; `count`: it is not in it. */
uint32_t pccl_master_seat_in(const struct pccl_subgroup *subgroup, const struct pccl_remote *remote);
/* Of a participant. */
static inline uint32_t pccl_master_seat(const struct pccl_operation *op, const struct pccl_remote *remote)
{
    return op->subgroup == NULL ? remote->position : pccl_master_seat_in(op->subgroup, remote);
}

/* NULL: there is none, or not any more. */
struct pccl_subgroup *pccl_master_find_subgroup(const struct pccl_peer_group *group, uint64_t name);
/* Returns true for a founded subgroup; also for a pair in PCCL_FOUNDING, the name of no subgroup. */
static inline bool pccl_master_names_subgroup(const struct pccl_instance *instance)
{
    return instance->subgroup != 0 && (instance->subgroup != PCCL_FOUNDING || instance->pair != 0);
}

/* ---- founding ---- */

/*
 * Those of a founding: the list, as far as they are living members of the group. NULL: out of
 * memory. The result of it, or the list in a contribution; complete: all are.
 */
struct pccl_subgroup *pccl_master_make_subgroup(struct pccl_master *m, struct pccl_peer_group *group,
                                                const struct pccl_instance *founding, const struct pccl_bytes *list);
/* Who of the list is no living member of the group. Appends. */
void pccl_master_add_strangers(const struct pccl_master *m, const struct pccl_peer_group *group,
                               const struct pccl_bytes *list, struct pccl_text *reason);
/*
 * All have said `done`: makes the result, and the subgroup lives; its links are asked for. false: out
 * of memory, or the name is taken.
 */
PCCL_MUST_CHECK bool pccl_master_found(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op);
/* Without members. NULL: out of memory. */
struct pccl_subgroup *pccl_master_allocate_subgroup(struct pccl_master *m, uint64_t name, uint32_t world);
/* Of a founding that is not to be; a pair without operations. */
void pccl_master_free_subgroup(struct pccl_master *m, struct pccl_subgroup *subgroup);

/* A subgroup of so many that the member is in, or has said `done` to found, has come or gone. */
void pccl_master_count_seats(struct pccl_remote *remote, uint32_t count, bool come);

/* ---- links ---- */

/* Adds the subgroup's links to the counts of its members, or removes them. Does nothing if that is already so. */
void pccl_master_count_subgroup_links(struct pccl_master *m, struct pccl_subgroup *subgroup, bool more);
/* Links that the subgroups of the group rely on. */
void pccl_master_request_subgroup_links(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- the end ---- */

/* A member of it that departs; NULL: none. */
const struct pccl_remote *pccl_master_departing_of(const struct pccl_subgroup *subgroup);
/* Frees a subgroup that has been founded. Sends nothing. */
void pccl_master_forget_subgroup(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_subgroup *subgroup);
/* The run, or the machine, ends: the same for all of the group. */
void pccl_master_drop_subgroups(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- for a restarted master ---- */

/* The subgroup with this founding and result, as somebody reports it. NULL: out of memory. */
struct pccl_subgroup *pccl_master_reported_subgroup(struct pccl_master *m, struct pccl_peer_group *group,
                                                    const struct pccl_instance *founding,
                                                    const struct pccl_bytes *founded);
/* This member has it, or will have it when it is told how its founding ended. */
void pccl_master_vouch(struct pccl_subgroup *subgroup, const struct pccl_remote *remote);

/* ---- operations_ends.c: why they end ---- */

/* The member closes it (`subgroup_end`). */
void pccl_master_subgroup_closed(struct pccl_master *m, struct pccl_remote *from, uint64_t name);
/* Before the view without the departing: ends those that they are in, and aborts such foundings. */
void pccl_master_end_departed_subgroups(struct pccl_master *m, struct pccl_peer_group *group);
/* A link is judged as failed: ends those that rely on it. */
void pccl_master_end_linked_subgroups(struct pccl_master *m, const struct pccl_remote *from,
                                      const struct pccl_remote *to);
/* After a restart, when all outcomes were told: those that all members have go on, the others end. */
void pccl_master_judge_reported_subgroups(struct pccl_master *m, struct pccl_peer_group *group);

#endif
