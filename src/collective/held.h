/*
 * Holds segments that were sent ahead for stripes that are not open here. Must not know what is
 * done with them.
 */
#ifndef PCCL_COLLECTIVE_HELD_H
#define PCCL_COLLECTIVE_HELD_H

#include "collective/internal.h"

static inline struct pccl_held_segment *pccl_held_segment_of(struct pccl_list_node *link)
{
    return PCCL_CONTAINER_OF(link, struct pccl_held_segment, link);
}

/* NULL: nothing is held of the operation. */
struct pccl_held *pccl_held_find(const struct pccl_lane *lane, const struct pccl_instance *instance);
/*
 * Holds a first step for a stripe that is not open here; returns what pccl_exchange_receive
 * returns.
 */
PCCL_MUST_CHECK enum pccl_status pccl_held_add(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                               const struct pccl_msg_data *data, struct pccl_arrival *arrival,
                                               struct pccl_text *reason);
void pccl_held_received(struct pccl_arrival *arrival);
void pccl_held_dropped(struct pccl_arrival *arrival);
/*
 * The stripe is open: the caller takes over what is held for it, with its scratch and its arrival.
 * false: nothing is held.
 */
PCCL_MUST_CHECK bool pccl_held_take(struct pccl_lane *lane, const struct pccl_transfer *transfer, uint64_t stripe,
                                    struct pccl_held_segment *taken);
void pccl_held_drop(struct pccl_held *held);
/* Drops what is held of views and eras before that of the transfer. */
void pccl_held_drop_past(struct pccl_lane *lane, const struct pccl_transfer *transfer);
/* The operation has ended here. */
void pccl_held_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance);
void pccl_held_forget_lane(struct pccl_lane *lane);
/*
 * Says whether the lane is used, and whether its peer is a member: either gives it room of its own.
 */
void pccl_held_own(struct pccl_exchange *exchange, struct pccl_lane *lane, bool used, bool member);

#endif
