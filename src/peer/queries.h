/* Queries about a peer's machine, which do not change it. Returned pointers are valid until the machine's next step. */
#ifndef PCCL_PEER_QUERIES_H
#define PCCL_PEER_QUERIES_H

#include "core/departed.h"
#include "peer/peer.h"
#include "peer/subgroup.h"

/* Verdict of the master (PROTOCOL 9.8). */
struct pccl_peer_verdict {
    uint64_t number, since_us;
    uint8_t class; /* enum pccl_verdict_class */
    struct pccl_id peer, other;
    struct pccl_text evidence, action;
};

/* Returns the time of the next TICK; UINT64_MAX if none is due. */
uint64_t pccl_peer_deadline(const struct pccl_peer *peer);

/*
 * Returns true if this peer is the only member of the current view. In that case launches are refused as TOO_FEW_PEERS,
 * unless this peer knows of a newer view, which will abort them; op_start is not called.
 */
bool pccl_peer_is_alone(const struct pccl_peer *peer);
/*
 * Returns the members of the group in the current view, in canonical order (by admission); NULL if this peer is not in
 * a run yet.
 */
const struct pccl_member *pccl_peer_view_members(const struct pccl_peer *peer, uint32_t *count);
/*
 * Returns the members of the whole group (0) in its view, or of a subgroup; NULL if the subgroup is unknown or closed
 * here.
 */
const struct pccl_peer_participants *pccl_peer_participants(const struct pccl_peer *peer, uint64_t subgroup);

/* Returns the subgroup that this founding has created; NULL before the commit. */
const struct pccl_peer_subgroup *pccl_peer_founded(const struct pccl_peer *peer, const struct pccl_peer_op *op);
/* Returns the subgroup of this name, ended or not, that a caller has founded and not closed; NULL if none exists. */
const struct pccl_peer_subgroup *pccl_peer_subgroup(const struct pccl_peer *peer, uint64_t name);

/*
 * Returns the automatic codec for a launch of this tag now, in this subgroup or the whole group (0). The descriptor
 * must contain the budget and, for levels with scales, the block, the scale and the rounding; its codec is set to the
 * chosen one.
 */
struct pccl_choice pccl_peer_choose(const struct pccl_peer *peer, uint64_t subgroup, uint64_t tag,
                                    struct pccl_descriptor *descriptor);

/* Returns the ticket with which `from` may dial this peer. */
struct pccl_id pccl_peer_ticket(const struct pccl_peer *peer, const struct pccl_id *from);

/* Returns the number of the open round, which identifies a sync call from its vote to its end. */
uint64_t pccl_peer_sync_round(const struct pccl_peer *peer);
/* Returns the revision of the group's state. Valid after a sync call that ended with OK. */
uint64_t pccl_peer_sync_revision(const struct pccl_peer *peer);

/* Returns true if this peer is a member of the run. */
bool pccl_peer_is_connected(const struct pccl_peer *peer);
/* Returns the first four values of pcclGetAttribute. This is a snapshot, replaced when a call returns (PROTOCOL 8). */
struct pccl_attributes pccl_peer_attributes(const struct pccl_peer *peer);
/* Returns the same four values for the latest member list from the master. */
struct pccl_attributes pccl_peer_attributes_now(const struct pccl_peer *peer);
/*
 * Returns the members of the group in canonical order as of the last call that returned, on which callers rely; NULL if
 * this peer is not in a run yet. Changes together with the attributes.
 */
const struct pccl_member *pccl_peer_members(const struct pccl_peer *peer, uint32_t *count);
/* Returns the number of that list, or of the current view's list. A peer's lists with the same number are identical. */
uint64_t pccl_peer_members_number(const struct pccl_peer *peer, bool as_of_view);
/*
 * Sets `departed` to the peers that left this peer's group after the epoch `known` and up to the epoch `until` (NULL:
 * until now), but only those that are among the latest PCCL_DEPARTED_MAX departures.
 */
void pccl_peer_departed(const struct pccl_peer *peer, const struct pccl_epoch *known, const struct pccl_epoch *until,
                        struct pccl_departed *departed);
/* Returns the status with which the machine ended: EXPELLED, MASTER_LOST, ...; OK if it has not ended. */
enum pccl_status pccl_peer_why_over(const struct pccl_peer *peer);
/* Returns the reason why the peer is unconnected, or why the last failed call failed. */
const struct pccl_text *pccl_peer_last_reason(const struct pccl_peer *peer);
/* Calls `each` for the known bulk operations that other members have launched and this peer has not. */
void pccl_peer_each_announcement(const struct pccl_peer *peer,
                                 void (*each)(void *context, const struct pccl_id *from,
                                              const struct pccl_instance *instance,
                                              const struct pccl_descriptor *descriptor),
                                 void *context);
/* Returns the master's latest description of the peers that this peer's callers wait for; empty if no caller waits. */
const struct pccl_text *pccl_peer_waiting(const struct pccl_peer *peer);
/* Returns the latest verdicts about the group from the master. */
const struct pccl_peer_verdict *pccl_peer_verdicts(const struct pccl_peer *peer, uint32_t *count);
const struct pccl_id *pccl_peer_lineage(const struct pccl_peer *peer);
/*
 * Returns the display name of this peer, a member, a newcomer with a link to or from this peer, or a peer that left the
 * group recently; NULL if unknown. Valid until the machine's next step.
 */
const char *pccl_peer_name_of(const struct pccl_peer *peer, const struct pccl_id *id);
/* Adds the names of the peers in a reason. Reasons from the machine already contain them. */
void pccl_peer_add_names(const struct pccl_peer *peer, struct pccl_text *reason);
uint32_t pccl_peer_silence_ms(const struct pccl_peer *peer);
uint32_t pccl_peer_tiny_bytes_max(const struct pccl_peer *peer);
/* Returns OK if this link_hello may be accepted now, or REFUSED with the code and the reason for the answer. */
PCCL_MUST_CHECK enum pccl_status pccl_peer_judge_link(const struct pccl_peer *peer,
                                                      const struct pccl_msg_link_hello *hello,
                                                      enum pccl_refusal *refusal, struct pccl_text *reason);

#endif
