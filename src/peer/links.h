/*
 * The links to other peers: to the ring's successor, to all in a small group, and to newcomers that
 * the master names. Links that are wanted are dialed until they stand. The master is told when a
 * link breaks and what was measured of it.
 */
#ifndef PCCL_PEER_LINKS_H
#define PCCL_PEER_LINKS_H

#include "peer/state.h"

/* As LINK_UP, LINK_DOWN and LINK_MEASURED (event.h). */
void pccl_peer_link_event(struct pccl_peer *p, const struct pccl_peer_event *event);
void pccl_peer_link_measured(struct pccl_peer *p, const struct pccl_peer_event *event);
/* As SHORTAGE (event.h). */
void pccl_peer_report_shortage(struct pccl_peer *p, const struct pccl_text *reason);
/*
 * One subgroup more, or less, relies on the link to this peer. false: out of memory, and the peer
 * gave up.
 */
PCCL_MUST_CHECK bool pccl_peer_want_link(struct pccl_peer *p, const struct pccl_id *id);
void pccl_peer_unwant_link(struct pccl_peer *p, const struct pccl_id *id);
/* The master asks for a link (`warm_up`), or takes that back (`forget`). */
void pccl_peer_warm_up(struct pccl_peer *p, const struct pccl_msg_warm_up *warm_up);
void pccl_peer_forget(struct pccl_peer *p, const struct pccl_id *id);
void pccl_peer_forget_warm_ups(struct pccl_peer *p);
/*
 * A bulk send to this member begins, or has ended. The link is wanted for it, and for `send_idle_ms` more if it is up.
 * The master is asked how to dial it, unless this peer knows. false: out of memory, and the peer gave up.
 */
PCCL_MUST_CHECK bool pccl_peer_send_begins(struct pccl_peer *p, const struct pccl_id *id);
void pccl_peer_send_ended(struct pccl_peer *p, const struct pccl_id *id);
/* Closes the link that has been idle longest if there are too many. Returns false if all are in use. */
PCCL_MUST_CHECK bool pccl_peer_can_send_to(struct pccl_peer *p, const struct pccl_id *id);
/*
 * Returns the time since which this peer can dial that member without success; UINT64_MAX: it has succeeded, or the
 * master has not told how. *how: how the last attempt ended; 0: there was none, or no memory or descriptor for it.
 */
uint64_t pccl_peer_unreached_since(const struct pccl_peer *p, const struct pccl_id *id, enum pccl_link_end *how);
/* The membership has changed, or the view. A new view says which members' links are wanted. */
void pccl_peer_links_follow_view(struct pccl_peer *p, bool new_view);
/* Returns true if the link that this peer has dialed to us is up. */
bool pccl_peer_has_link_from(const struct pccl_peer *p, const struct pccl_id *id);
/* The end of an incoming connection is gone: reports it to the master, as its sender may not know. */
void pccl_peer_end_gone(struct pccl_peer *p, const struct pccl_peer_event *event);
/* Reports the latest of these to a restarted master, which may not have passed them on. */
void pccl_peer_resend_gone(struct pccl_peer *p);
/* The other end of a connection that this peer has dialed is gone: ends it, unless a newer one has replaced it. */
void pccl_peer_link_gone(struct pccl_peer *p, const struct pccl_msg_link_gone *gone);
void pccl_peer_tick_links(struct pccl_peer *p);
void pccl_peer_close_links(struct pccl_peer *p);
/*
 * The master has been told these figures of the link to this peer; only changes from them are told
 * again.
 */
void pccl_peer_note_told(struct pccl_peer *p, const struct pccl_id *id, uint32_t rtt_us, uint64_t rate);

#endif
