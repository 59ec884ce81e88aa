/*
 * What a peer's machine answers. Nothing here changes it; what is pointed to is valid until its next step.
 */
#ifndef PCCL_PEER_QUERIES_H
#define PCCL_PEER_QUERIES_H

#include "peer/peer.h"

/* Who left a group in some time, in that order: the first of them, and how many they are. */
struct pccl_departed {
    uint32_t count;
    struct pccl_id ids[PCCL_DEPARTED_TOLD_MAX];
};

/* When the next TICK is due; UINT64_MAX: never. */
uint64_t pccl_peer_deadline(const struct pccl_peer *peer);

/*
 * There is nobody to exchange data with in the current view: op_start is not called for what is launched now. Mostly
 * launching is refused, as TOO_FEW_PEERS; else the view that comes ends it.
 */
bool pccl_peer_is_alone(const struct pccl_peer *peer);
/* The ring of this peer's group in the current view, and what its members agree on about its links. */
const struct pccl_id *pccl_peer_ring(const struct pccl_peer *peer, uint32_t *count);
struct pccl_cost pccl_peer_cost(const struct pccl_peer *peer);

/* The round that is open: the name of a sync call from its vote to its end. */
uint64_t pccl_peer_sync_round(const struct pccl_peer *peer);
/* After a sync call that ended with OK: the revision that the group holds. */
uint64_t pccl_peer_sync_revision(const struct pccl_peer *peer);

/* Accepted and not expelled. */
bool pccl_peer_is_connected(const struct pccl_peer *peer);
/* The four numbers of pcclGetAttribute: a snapshot, replaced when a call returns (PROTOCOL 8). */
struct pccl_attributes pccl_peer_attributes(const struct pccl_peer *peer);
/*
 * Who left this peer's group after the epoch `known`, until the epoch `until` (NULL: until now), of the latest
 * PCCL_DEPARTED_MAX.
 */
void pccl_peer_departed(const struct pccl_peer *peer, const struct pccl_epoch *known, const struct pccl_epoch *until,
                        struct pccl_departed *departed);
/* What ended its life: EXPELLED, MASTER_LOST, ...; OK before. */
enum pccl_status pccl_peer_why_over(const struct pccl_peer *peer);
/* Why it is unconnected, or what the last failed call died of. */
const struct pccl_text *pccl_peer_last_reason(const struct pccl_peer *peer);
/* Who everybody waits for, as last told by the master; empty when nobody waits. */
const struct pccl_text *pccl_peer_waiting(const struct pccl_peer *peer);
const struct pccl_id *pccl_peer_lineage(const struct pccl_peer *peer);
/*
 * What this peer, a member, a newcomer linked to or one of those who left the group last is called; NULL: not known.
 * Valid until the machine's next step.
 */
const char *pccl_peer_name_of(const struct pccl_peer *peer, const struct pccl_id *id);
/* Says in these words what the peers are called that they speak of. Those of the machine itself say it already. */
void pccl_peer_add_names(const struct pccl_peer *peer, struct pccl_text *reason);
uint32_t pccl_peer_silence_ms(const struct pccl_peer *peer);
uint32_t pccl_peer_tiny_bytes_max(const struct pccl_peer *peer);
/* May this peer's link_hello be accepted now? OK, or REFUSED with the refusal code and words for the answer. */
PCCL_MUST_CHECK enum pccl_status pccl_peer_judge_link(const struct pccl_peer *peer,
                                                      const struct pccl_msg_link_hello *hello,
                                                      enum pccl_refusal *refusal, struct pccl_text *reason);

#endif
