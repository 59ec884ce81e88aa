/*
 * What peers are called. Machines write of a peer as "peer 1a2b3c4d", by the first digits of its id; before people read
 * such words, those whose names are known get them: "peer 1a2b3c4d 'trainer-3'". Where the first digits of two ids are
 * the same, the one that came first has its name.
 */
#ifndef PCCL_CORE_NAMES_H
#define PCCL_CORE_NAMES_H

#include "core/id.h"
#include "core/table.h"
#include "core/text.h"

struct pccl_names {
    struct pccl_table by_digits;
};

/* `memory` and `hash` are borrowed until fini. Must not move after init, as its table. */
void pccl_names_init(struct pccl_names *names, const struct pccl_memory *memory, const struct pccl_hash_key *hash);
void pccl_names_fini(struct pccl_names *names);
/* Cut to PCCL_NAME_MAX bytes; unprintable ones become '?'. An empty name, or one that memory is short for, is none. */
void pccl_names_set(struct pccl_names *names, const struct pccl_id *id, const char *bytes, size_t length);
void pccl_names_forget(struct pccl_names *names, const struct pccl_id *id);
/* Forgets all that `keeps` does not want. */
void pccl_names_prune(struct pccl_names *names, bool (*keeps)(const void *context, const struct pccl_id *id),
                      const void *context);
/* NULL: none is known. Valid until it is forgotten. */
const char *pccl_names_of(const struct pccl_names *names, const struct pccl_id *id);
/* Puts the names behind the peers that the words speak of; what has got one keeps it. */
void pccl_names_add_to(const struct pccl_names *names, struct pccl_text *words);

#endif
