/*
 * Choice of an automatic codec (PROTOCOL 7.12): as many bits per element as the caller's time budget permits. The
 * choice itself contains all data about earlier uses, so no state is kept between uses. Pure arithmetic with the same
 * result on every machine.
 */
#ifndef PCCL_WIRE_CHOICE_H
#define PCCL_WIRE_CHOICE_H

#include "wire/wire.h"

#define PCCL_TOOK_UNKNOWN UINT32_MAX /* an unknown duration of a use, or an unknown since_us */

/* Returns true if the descriptor has an automatic codec. */
static inline bool pccl_choice_is_automatic(const struct pccl_descriptor *descriptor)
{
    return descriptor->budget_ms != 0 || descriptor->budget_percent != 0;
}

/* Returns NULL if the operation of the descriptor supports automatic codecs, otherwise the reason why it does not. */
const char *pccl_choice_misfit(const struct pccl_descriptor *descriptor);
/*
 * Sets the codec of the descriptor to the level's codec. `asked` provides block, scale and rounding for levels with
 * scales, and may be the same object.
 */
void pccl_choice_apply(enum pccl_level level, const struct pccl_descriptor *asked, struct pccl_descriptor *descriptor);
/* Returns true if the descriptor has the codec of this level. */
bool pccl_choice_is_applied(enum pccl_level level, const struct pccl_descriptor *descriptor);

/*
 * Returns the choice for the first use of a tag, or if the previous use cannot be compared. world: number of
 * participants.
 */
struct pccl_choice pccl_choice_first(const struct pccl_descriptor *descriptor, uint32_t world,
                                     const struct pccl_cost *cost);
/*
 * Merges the choice with which a peer has launched. The longest reported gap applies, because the peer that launched
 * last has waited longest, and an exaggerated gap costs time but no bits. If one peer does not know a gap, that gap is
 * unknown.
 */
void pccl_choice_merge(struct pccl_choice *used, const struct pccl_choice *reported);
/*
 * Returns the choice that follows a use. used: the choice of its launch, into which all peers' choices were merged.
 * took_us: its duration.
 */
struct pccl_choice pccl_choice_next(const struct pccl_descriptor *descriptor, const struct pccl_choice *used,
                                    uint32_t took_us);
/* Appends a budget such as "50 ms". */
void pccl_choice_describe_budget(struct pccl_text *words, const struct pccl_descriptor *descriptor);
/* Appends a description such as "lowered: budget 50 ms, the use before took 180.0 ms, expected 46.3 ms". */
void pccl_choice_describe(struct pccl_text *words, const struct pccl_descriptor *descriptor,
                          const struct pccl_choice *choice);

#endif
