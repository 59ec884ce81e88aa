/*
 * Links to other peers: to the successor in the ring, to all members of a small group, to hubs, to newcomers that the
 * master names, and for sends. The machine dials a wanted link until it is up, and reports broken links and
 * measurements to the master.
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
 * Add or remove a subgroup that needs the link to this peer. If out of memory, pccl_peer_want_link gives up and returns
 * false.
 */
PCCL_MUST_CHECK bool pccl_peer_want_link(struct pccl_peer *p, const struct pccl_id *id);
void pccl_peer_unwant_link(struct pccl_peer *p, const struct pccl_id *id);
/* Handle the master's request for a link (`warm_up`), and its withdrawal (`forget`). */
void pccl_peer_warm_up(struct pccl_peer *p, const struct pccl_msg_warm_up *warm_up);
void pccl_peer_forget(struct pccl_peer *p, const struct pccl_id *id);
void pccl_peer_forget_warm_ups(struct pccl_peer *p);
/*
 * Begin and end a bulk send to this member. The link is wanted during the send and, if it is up, for `send_idle_ms`
 * after it. If the addresses are unknown, pccl_peer_send_begins requests them from the master. If out of memory, it
 * gives up and returns false.
 */
PCCL_MUST_CHECK bool pccl_peer_send_begins(struct pccl_peer *p, const struct pccl_id *id);
void pccl_peer_send_ended(struct pccl_peer *p, const struct pccl_id *id);
/*
 * If there are too many links for sends, closes the one that has been idle for the longest time. Returns false if all
 * are in use.
 */
PCCL_MUST_CHECK bool pccl_peer_can_send_to(struct pccl_peer *p, const struct pccl_id *id);
/*
 * Returns the time since which this peer has had the member's addresses but no link to it; UINT64_MAX if the link is up
 * or the addresses are unknown. Sets *how to the way in which the last attempt ended, or to 0 if there was none or this
 * host lacked memory or a descriptor, and *is_hopeless to true if a dial has failed and the master can reach neither
 * port.
 */
uint64_t pccl_peer_unreached_since(const struct pccl_peer *p, const struct pccl_id *id, enum pccl_link_end *how,
                                   bool *is_hopeless);
/*
 * Adjusts the links after a change of the membership or the view. A new view determines which members' links are
 * wanted.
 */
void pccl_peer_links_follow_view(struct pccl_peer *p, bool new_view);
/* Returns true if the link that peer `id` dialed to this one is up. */
bool pccl_peer_has_link_from(const struct pccl_peer *p, const struct pccl_id *id);
/* Handles WANT_BACK (event.h). */
void pccl_peer_want_back(struct pccl_peer *p, const struct pccl_peer_event *event);
/* Handles the end of an incoming connection: reports it to the master, because the sender may not have noticed. */
void pccl_peer_end_gone(struct pccl_peer *p, const struct pccl_peer_event *event);
/* Reports these ends again to a restarted master, because the previous one may not have forwarded them. */
void pccl_peer_resend_gone(struct pccl_peer *p);
/* Handles the end of a connection at its other end: ends it here, unless a newer one has replaced it. */
void pccl_peer_link_gone(struct pccl_peer *p, const struct pccl_msg_link_gone *gone);
void pccl_peer_tick_links(struct pccl_peer *p);
void pccl_peer_close_links(struct pccl_peer *p);
/* Records figures of the link that the master already has. The machine then reports only changes from these. */
void pccl_peer_note_figures(struct pccl_peer *p, const struct pccl_id *id, uint32_t rtt_us, uint64_t rate);

#endif
