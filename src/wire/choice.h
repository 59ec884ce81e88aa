/*
 * Which codec an automatic one is (PROTOCOL 7.12): as many bits for each element as the caller's time
 * allows. All that a choice needs to know of earlier uses travels with it, so who chooses remembers
 * nothing. Pure arithmetic, the same on every machine.
 */
#ifndef PCCL_WIRE_CHOICE_H
#define PCCL_WIRE_CHOICE_H

#include "wire/wire.h"

#define PCCL_TOOK_UNKNOWN UINT32_MAX /* in place of how long a use took, and of since_us */

/* Whether its codec is an automatic one. */
static inline bool pccl_choice_is_automatic(const struct pccl_descriptor *descriptor)
{
    return descriptor->budget_ms != 0 || descriptor->budget_percent != 0;
}

/* Whether an automatic codec fits the operation that the descriptor asks for; NULL: it does, else why not. */
const char *pccl_choice_misfit(const struct pccl_descriptor *descriptor);
/*
 * Makes the codec of the descriptor that of the level. `asked` has the block, the scale and the
 * rounding of levels with scales, and may be the descriptor.
 */
void pccl_choice_apply(enum pccl_level level, const struct pccl_descriptor *asked, struct pccl_descriptor *descriptor);
/* Whether the codec of the descriptor is that of the level. */
bool pccl_choice_is_applied(enum pccl_level level, const struct pccl_descriptor *descriptor);

/* For a use before which none counts. So many take part. */
struct pccl_choice pccl_choice_first(const struct pccl_descriptor *descriptor, uint32_t world,
                                     const struct pccl_cost *cost);
/*
 * A peer launched with `told`. Of what peers say of the time between uses, the longest counts: who
 * launched last waited longest, and who says too much costs time and no bits. What one does not know is
 * unknown.
 */
void pccl_choice_hear(struct pccl_choice *used, const struct pccl_choice *told);
/* For the use after one that was launched with `used`, of which all was heard, and took so long. */
struct pccl_choice pccl_choice_next(const struct pccl_descriptor *descriptor, const struct pccl_choice *used,
                                    uint32_t took_us);
/* "50 ms". Appends. */
void pccl_choice_describe_budget(struct pccl_text *words, const struct pccl_descriptor *descriptor);
/* "lowered: budget 50 ms, the use before took 180.0 ms, expected 46.3 ms". Appends. */
void pccl_choice_describe(struct pccl_text *words, const struct pccl_descriptor *descriptor,
                          const struct pccl_choice *choice);

#endif
