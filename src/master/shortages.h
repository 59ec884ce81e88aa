/*
 * Shortages that peers report: memory or descriptors, without which they cannot open or accept links or take part in a
 * joint call. They only explain failures; the failures are decided elsewhere.
 */
#ifndef PCCL_MASTER_SHORTAGES_H
#define PCCL_MASTER_SHORTAGES_H

#include "master/state.h"

/* Stores and logs a reported shortage (from `shortage`, or from a vote in a joint call). */
void pccl_master_note_shortage(struct pccl_master *m, struct pccl_remote *from, struct pccl_bytes reason);
/* Stores whether the sender of a vote can take part; `unable` is empty or says why not. */
void pccl_master_note_ability(struct pccl_master *m, struct pccl_remote *from, uint8_t kind, struct pccl_bytes unable);
/* Returns true if some member cannot take part; `words` then names one. Call when all of the group have voted. */
PCCL_MUST_CHECK bool pccl_master_some_are_unable(const struct pccl_peer_group *group, uint8_t kind,
                                                 struct pccl_text *words);
/* Returns true if the peer has reported a shortage since then. */
bool pccl_master_reported_shortage_since(const struct pccl_remote *remote, uint64_t since_us);
/* Appends the peer that cannot take part, and why. */
void pccl_master_describe_shortage(const struct pccl_remote *remote, struct pccl_text *words);

#endif
