/*
 * Shortages that peers report: a lack of memory or descriptors prevents them from opening or accepting links, or from
 * taking part in a joint call. Shortages explain failures, and count as evidence against a peer when a failed link is
 * decided (links_failed.c).
 */
#ifndef PCCL_MASTER_SHORTAGES_H
#define PCCL_MASTER_SHORTAGES_H

#include "master/state.h"

/* Stores and logs a shortage, which a peer reports in `shortage` or in a vote. */
void pccl_master_note_shortage(struct pccl_master *m, struct pccl_remote *from, struct pccl_bytes reason);
/* Records whether the sender of a vote can take part. `unable` is the reason if it cannot; otherwise empty. */
void pccl_master_note_ability(struct pccl_master *m, struct pccl_remote *from, uint8_t kind, struct pccl_bytes unable);
/* Returns true if a member cannot take part, and describes it in `words`. Call when the whole group has voted. */
PCCL_MUST_CHECK bool pccl_master_some_are_unable(const struct pccl_peer_group *group, uint8_t kind,
                                                 struct pccl_text *words);
/* Returns true if the peer has reported a shortage since `since_us`. */
bool pccl_master_reported_shortage_since(const struct pccl_remote *remote, uint64_t since_us);
/* Appends the peer and the reason why it cannot take part. */
void pccl_master_describe_shortage(const struct pccl_remote *remote, struct pccl_text *words);

#endif
