/*
 * Choice of an automatic codec (PROTOCOL 7.12): as many bits per element as the caller's time allows. All data about
 * earlier uses travels with the choice, so no state is kept between uses. Pure arithmetic, the same on every machine.
 */
#ifndef PCCL_WIRE_CHOICE_H
#define PCCL_WIRE_CHOICE_H

#include "wire/wire.h"

#define PCCL_TOOK_UNKNOWN UINT32_MAX /* in place of an unknown duration of a use, or since_us */

/* Returns true if the descriptor has an automatic codec. */
static inline bool pccl_choice_is_automatic(const struct pccl_descriptor *descriptor)
{
    return descriptor->budget_ms != 0 || descriptor->budget_percent != 0;
}

/* Returns NULL if an automatic codec fits the operation of the descriptor, else the reason why not. */
const char *pccl_choice_misfit(const struct pccl_descriptor *descriptor);
/*
 * Sets the codec of the descriptor to the level's. `asked` has the block, the scale and the rounding of levels with
 * scales, and may be the descriptor.
 */
void pccl_choice_apply(enum pccl_level level, const struct pccl_descriptor *asked, struct pccl_descriptor *descriptor);
/* Returns true if the descriptor has the level's codec. */
bool pccl_choice_is_applied(enum pccl_level level, const struct pccl_descriptor *descriptor);

/* Returns the choice for a first use of a tag, or if the previous one does not count. world: number of participants. */
struct pccl_choice pccl_choice_first(const struct pccl_descriptor *descriptor, uint32_t world,
                                     const struct pccl_cost *cost);
/*
 * Merges the choice that a peer launched with. Of the reported times between uses the longest counts: the peer that
 * launched last waited longest, and an exaggeration costs time but no bits. A time that one peer does not know is
 * unknown.
 */
void pccl_choice_merge(struct pccl_choice *used, const struct pccl_choice *told);
/* Returns the choice after a use launched with `used`, into which all choices were merged, that took took_us. */
struct pccl_choice pccl_choice_next(const struct pccl_descriptor *descriptor, const struct pccl_choice *used,
                                    uint32_t took_us);
/* Appends "50 ms". */
void pccl_choice_describe_budget(struct pccl_text *words, const struct pccl_descriptor *descriptor);
/* Appends "lowered: budget 50 ms, the use before took 180.0 ms, expected 46.3 ms". */
void pccl_choice_describe(struct pccl_text *words, const struct pccl_descriptor *descriptor,
                          const struct pccl_choice *choice);

#endif
