/*
 * What peers say that they lack: memory or descriptors, without which they cannot open or accept links, or take part in
 * a joint call. It explains failures; whether something fails is decided elsewhere.
 */
#ifndef PCCL_MASTER_LACKS_H
#define PCCL_MASTER_LACKS_H

#include "master/state.h"

/* Keeps and logs what it says: `shortage`, or its vote in a joint call. */
void pccl_master_note_lack(struct pccl_master *m, struct pccl_remote *from, struct pccl_bytes reason);
/* Of a vote: the sender takes part, or says why not. */
void pccl_master_note_ability(struct pccl_master *m, struct pccl_remote *from, uint8_t kind, struct pccl_bytes unable);
/* All of the group have voted. Returns true if some cannot take part: the words name one. */
PCCL_MUST_CHECK bool pccl_master_some_are_unable(const struct pccl_peer_group *group, uint8_t kind,
                                                 struct pccl_text *words);
/* Has it said so since then? */
bool pccl_master_lacks_since(const struct pccl_remote *remote, uint64_t since_us);
/* Appends which peer cannot take part, and why. */
void pccl_master_describe_lack(const struct pccl_remote *remote, struct pccl_text *words);

#endif
