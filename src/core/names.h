/*
 * Display names of peers. Machines write "peer 1a2b3c4d", with the first digits of the id; before people read the text,
 * known names are added: "peer 1a2b3c4d 'trainer-3'". If two ids begin with the same digits, the first one keeps the
 * name.
 */
#ifndef PCCL_CORE_NAMES_H
#define PCCL_CORE_NAMES_H

#include "core/id.h"
#include "core/table.h"
#include "core/text.h"

struct pccl_names {
    struct pccl_table by_digits;
};

/* `memory` and `hash` are borrowed until fini. Like its table, it must not move after init. */
void pccl_names_init(struct pccl_names *names, const struct pccl_memory *memory, const struct pccl_hash_key *hash);
void pccl_names_fini(struct pccl_names *names);
/*
 * Sets a name, cut to PCCL_NAME_MAX bytes; unprintable ones become '?'. Does nothing if an id with
 * the same first digits has a name, the name is empty, or memory is short.
 */
void pccl_names_set(struct pccl_names *names, const struct pccl_id *id, const char *bytes, size_t length);
void pccl_names_forget(struct pccl_names *names, const struct pccl_id *id);
/* Forgets all names for which `keeps` returns false. */
void pccl_names_prune(struct pccl_names *names, bool (*keeps)(const void *context, const struct pccl_id *id),
                      const void *context);
/* Returns NULL if no name is known. Valid until the name is forgotten. */
const char *pccl_names_of(const struct pccl_names *names, const struct pccl_id *id);
/* Copies the name; "" if no name is known. */
void pccl_names_copy(const struct pccl_names *names, const struct pccl_id *id, char out[PCCL_NAME_MAX + 1]);
/* Adds names behind the peers in the text, except where a name is there already. */
void pccl_names_add_to(const struct pccl_names *names, struct pccl_text *words);

#endif
