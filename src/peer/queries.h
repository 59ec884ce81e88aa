/*
 * Reads a peer's machine. Nothing here changes it; pointers are valid until its next step.
 */
#ifndef PCCL_PEER_QUERIES_H
#define PCCL_PEER_QUERIES_H

#include "core/departed.h"
#include "peer/peer.h"
#include "peer/subgroup.h"

/* What the master has concluded (PROTOCOL 9.8). */
struct pccl_peer_verdict {
    uint64_t number, since_us;
    uint8_t class; /* enum pccl_verdict_class */
    struct pccl_id peer, other;
    struct pccl_text evidence, action;
};

/* When the next TICK is due; UINT64_MAX: never. */
uint64_t pccl_peer_deadline(const struct pccl_peer *peer);

/*
 * There is nobody to exchange data with in the current view, so op_start is not called for a
 * launch. A launch is refused as TOO_FEW_PEERS, unless this peer knows of a newer view, which will
 * end it.
 */
bool pccl_peer_is_alone(const struct pccl_peer *peer);
/* Returns the members of the group in the current view, in canonical order (by admission). NULL: in no run yet. */
const struct pccl_member *pccl_peer_view_members(const struct pccl_peer *peer, uint32_t *count);
/* Returns the members of the whole group (0) in its view, or of a subgroup. NULL: it is unknown or closed here. */
const struct pccl_peer_participants *pccl_peer_participants(const struct pccl_peer *peer, uint64_t subgroup);

/* The subgroup that this founding has founded: from its commit on. NULL: it has not. */
const struct pccl_peer_subgroup *pccl_peer_founded(const struct pccl_peer *peer, const struct pccl_peer_op *op);
/* The subgroup of this name that a caller here has founded and not closed, ended or not; or NULL. */
const struct pccl_peer_subgroup *pccl_peer_subgroup(const struct pccl_peer *peer, uint64_t name);

/*
 * What an automatic codec is if this tag is launched now, in this subgroup or the whole group (0). The descriptor has
 * its budget, and of levels with scales the block, the scale and the rounding; its codec is made that of the choice.
 */
struct pccl_choice pccl_peer_choose(const struct pccl_peer *peer, uint64_t subgroup, uint64_t tag,
                                    struct pccl_descriptor *descriptor);

/* The ticket with which that peer may dial this one. */
struct pccl_id pccl_peer_ticket(const struct pccl_peer *peer, const struct pccl_id *from);

/* The number of the open round: it names a sync call from its vote to its end. */
uint64_t pccl_peer_sync_round(const struct pccl_peer *peer);
/* The revision that the group holds, after a sync call that ended with OK. */
uint64_t pccl_peer_sync_revision(const struct pccl_peer *peer);

/* This peer is a member of the run. */
bool pccl_peer_is_connected(const struct pccl_peer *peer);
/* The first four numbers of pcclGetAttribute: a snapshot, replaced when a call returns (PROTOCOL 8). */
struct pccl_attributes pccl_peer_attributes(const struct pccl_peer *peer);
/* The same counts of the latest member list that the master has told. */
struct pccl_attributes pccl_peer_attributes_now(const struct pccl_peer *peer);
/*
 * The members of the group in their canonical order, as of the call that returned last: callers
 * count on these. It changes with the attributes. NULL: in no run yet.
 */
const struct pccl_member *pccl_peer_members(const struct pccl_peer *peer, uint32_t *count);
/* The number of that list, or of the view's: two lists of this peer with one number are the same. */
uint64_t pccl_peer_members_number(const struct pccl_peer *peer, bool as_of_view);
/*
 * Which peers left this peer's group after the epoch `known` and up to the epoch `until` (NULL: up
 * to now), as far as they are among the latest PCCL_DEPARTED_MAX.
 */
void pccl_peer_departed(const struct pccl_peer *peer, const struct pccl_epoch *known, const struct pccl_epoch *until,
                        struct pccl_departed *departed);
/* What ended the peer's life: EXPELLED, MASTER_LOST, ...; OK if it has not ended. */
enum pccl_status pccl_peer_why_over(const struct pccl_peer *peer);
/* Why the peer is unconnected, or why the last failed call failed. */
const struct pccl_text *pccl_peer_last_reason(const struct pccl_peer *peer);
/* The operations that other members have entered, peer to peer, and this peer has not, as far as it was told. */
void pccl_peer_each_announcement(const struct pccl_peer *peer,
                                 void (*each)(void *context, const struct pccl_id *from,
                                              const struct pccl_instance *instance,
                                              const struct pccl_descriptor *descriptor),
                                 void *context);
/* Whom this peer's callers wait for, as the master told last; empty when none of them waits. */
const struct pccl_text *pccl_peer_waiting(const struct pccl_peer *peer);
/* What the master concludes of the group, as it told last. */
const struct pccl_peer_verdict *pccl_peer_verdicts(const struct pccl_peer *peer, uint32_t *count);
const struct pccl_id *pccl_peer_lineage(const struct pccl_peer *peer);
/*
 * The display name of this peer, a member, a newcomer with a link here, or a peer that left the
 * group lately; NULL: not known. Valid until the machine's next step.
 */
const char *pccl_peer_name_of(const struct pccl_peer *peer, const struct pccl_id *id);
/*
 * Adds to a reason the names of the peers that it mentions. Reasons from the machine itself have
 * them already.
 */
void pccl_peer_add_names(const struct pccl_peer *peer, struct pccl_text *reason);
uint32_t pccl_peer_silence_ms(const struct pccl_peer *peer);
uint32_t pccl_peer_tiny_bytes_max(const struct pccl_peer *peer);
/*
 * May this link_hello be accepted now? OK, or REFUSED with the code and the reason for the answer.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_judge_link(const struct pccl_peer *peer,
                                                      const struct pccl_msg_link_hello *hello,
                                                      enum pccl_refusal *refusal, struct pccl_text *reason);

#endif
