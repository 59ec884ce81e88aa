/*
 * Links to other peers: to the successor in the ring, to all members of a small group, and to newcomers that the master
 * names. The machine dials a wanted link until it is up. It tells the master when a link breaks, and reports the
 * measurements on it.
 */
#ifndef PCCL_PEER_LINKS_H
#define PCCL_PEER_LINKS_H

#include "peer/state.h"

/* Handle LINK_UP, LINK_DOWN and LINK_MEASURED (event.h). */
void pccl_peer_link_event(struct pccl_peer *p, const struct pccl_peer_event *event);
void pccl_peer_link_measured(struct pccl_peer *p, const struct pccl_peer_event *event);
/* Handles SHORTAGE (event.h). */
void pccl_peer_report_shortage(struct pccl_peer *p, const struct pccl_text *reason);
/*
 * One more subgroup, or one less, needs the link to this peer. pccl_peer_want_link returns false if it is out of
 * memory; the peer has given up then.
 */
PCCL_MUST_CHECK bool pccl_peer_want_link(struct pccl_peer *p, const struct pccl_id *id);
void pccl_peer_unwant_link(struct pccl_peer *p, const struct pccl_id *id);
/* The master asks for a link (`warm_up`), or withdraws that (`forget`). */
void pccl_peer_warm_up(struct pccl_peer *p, const struct pccl_msg_warm_up *warm_up);
void pccl_peer_forget(struct pccl_peer *p, const struct pccl_id *id);
void pccl_peer_forget_warm_ups(struct pccl_peer *p);
/*
 * A bulk send to this member begins, or has ended. The link is wanted for the send, and for `send_idle_ms` after it if
 * the link is up. The master is asked for the addresses, unless this peer knows them. pccl_peer_send_begins returns
 * false if it is out of memory; the peer has given up then.
 */
PCCL_MUST_CHECK bool pccl_peer_send_begins(struct pccl_peer *p, const struct pccl_id *id);
void pccl_peer_send_ended(struct pccl_peer *p, const struct pccl_id *id);
/*
 * If there are too many links for sends, closes the one that has been idle longest. Returns false if all of them are in
 * use.
 */
PCCL_MUST_CHECK bool pccl_peer_can_send_to(struct pccl_peer *p, const struct pccl_id *id);
/*
 * Returns the time since which this peer has the addresses of that member and no link to it. Returns UINT64_MAX if the
 * link is up, or the addresses are unknown. *how becomes the end of the last attempt; 0 if there was none, or this host
 * lacked the memory or a descriptor for it.
 */
uint64_t pccl_peer_unreached_since(const struct pccl_peer *p, const struct pccl_id *id, enum pccl_link_end *how);
/* To be called when the membership or the view has changed. A new view determines which members' links are wanted. */
void pccl_peer_links_follow_view(struct pccl_peer *p, bool new_view);
/* Returns true if the link that the peer `id` dialed to this one is up. */
bool pccl_peer_has_link_from(const struct pccl_peer *p, const struct pccl_id *id);
/* The end of an incoming connection is gone: reports it to the master, as its sender may not know. */
void pccl_peer_end_gone(struct pccl_peer *p, const struct pccl_peer_event *event);
/* Reports the latest of these to a restarted master, which may not have passed them on. */
void pccl_peer_resend_gone(struct pccl_peer *p);
/* The other end of a connection that this peer has dialed is gone: ends it, unless a newer one has replaced it. */
void pccl_peer_link_gone(struct pccl_peer *p, const struct pccl_msg_link_gone *gone);
void pccl_peer_tick_links(struct pccl_peer *p);
void pccl_peer_close_links(struct pccl_peer *p);
/* The master was told these figures of the link to this peer. Only changes from them are reported again. */
void pccl_peer_note_figures(struct pccl_peer *p, const struct pccl_id *id, uint32_t rtt_us, uint64_t rate);

#endif
