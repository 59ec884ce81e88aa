/*
 * Display names of peers. State machines write "peer 1a2b3c4d" with the first digits of the id; before a text is shown
 * to people, known names are inserted: "peer 1a2b3c4d 'trainer-3'". If two ids begin with the same digits, the name
 * that was set first is kept.
 */
#ifndef PCCL_CORE_NAMES_H
#define PCCL_CORE_NAMES_H

#include "core/id.h"
#include "core/table.h"
#include "core/text.h"

struct pccl_names {
    struct pccl_table by_digits;
};

/* Initializes a struct, which must not move afterward. `memory` and `hash` are borrowed until fini. */
void pccl_names_init(struct pccl_names *names, const struct pccl_memory *memory, const struct pccl_hash_key *hash);
void pccl_names_fini(struct pccl_names *names);
/*
 * Sets a name. Truncates it to PCCL_NAME_MAX bytes and replaces unprintable bytes with '?'. Does nothing if the name is
 * empty, if an id with the same first digits already has a name, or if out of memory.
 */
void pccl_names_set(struct pccl_names *names, const struct pccl_id *id, const char *bytes, size_t length);
void pccl_names_forget(struct pccl_names *names, const struct pccl_id *id);
/* Forgets all names for which `keeps` returns false. */
void pccl_names_prune(struct pccl_names *names, bool (*keeps)(const void *context, const struct pccl_id *id),
                      const void *context);
/* Returns the name, or NULL if it is unknown. Valid until the name is forgotten. */
const char *pccl_names_of(const struct pccl_names *names, const struct pccl_id *id);
/* Copies the name, or "" if it is unknown. */
void pccl_names_copy(const struct pccl_names *names, const struct pccl_id *id, char out[PCCL_NAME_MAX + 1]);
/* Inserts the known name after each peer in the text that is not followed by a name. */
void pccl_names_add_to(const struct pccl_names *names, struct pccl_text *words);

#endif
