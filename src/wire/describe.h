/*
 * Messages that master and peers word alike: how members differ about one operation, and who is
 * missing where.
 */
#ifndef PCCL_WIRE_DESCRIBE_H
#define PCCL_WIRE_DESCRIBE_H

#include "wire/wire.h"

/* What one peer launched. */
struct pccl_described {
    const struct pccl_id *peer;
    const struct pccl_descriptor *descriptor;
    bool tiny;
};

/*
 * "peer a called sum of 10 f32 through the master but peer b called avg of 10 f32 peer to peer".
 * Replaces the text.
 */
void pccl_describe_difference(struct pccl_text *words, const struct pccl_described *a, const struct pccl_described *b);

/* "no answer": how a link ended, or dialing one; anything else is "broken" */
const char *pccl_link_end_name(enum pccl_link_end end);
/*
 * "update topology (round 3)", "barrier tag 7": a call, by its round or, of an operation, by its
 * collective and tag. Appends.
 */
void pccl_describe_call(struct pccl_text *text, uint8_t call, uint8_t collective, uint64_t detail);
/* "peer a (silent for 3 s; in its own work), peer b (...) and 7 more". Appends. */
void pccl_describe_places(struct pccl_text *text, const struct pccl_place *places, uint32_t count, uint32_t missing);
/*
 * Returns what to change in a program whose peers wait in these two calls (enum pccl_call), which can never meet.
 */
const char *pccl_remedy(uint8_t call, uint8_t other);

/* "slow link": the class of a verdict. */
const char *pccl_verdict_name(uint8_t class);
/* "slow link: from peer a to peer b: " and the evidence. Appends. other: zero unless it is about a link. */
void pccl_describe_verdict(struct pccl_text *text, uint8_t class, const struct pccl_id *peer,
                           const struct pccl_id *other, const char *evidence);

#endif
