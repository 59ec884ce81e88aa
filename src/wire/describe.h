/*
 * Texts used by both master and peers: differences between members' launches of one operation, and the members missing
 * from a call.
 */
#ifndef PCCL_WIRE_DESCRIBE_H
#define PCCL_WIRE_DESCRIBE_H

#include "wire/wire.h"

/* A peer's launch of an operation. */
struct pccl_described {
    const struct pccl_id *peer;
    const struct pccl_descriptor *descriptor;
    bool tiny;
};

/*
 * Replaces the text with, for example, "peer a called sum of 10 f32 through the master, but peer b called avg of 10 f32
 * peer to peer".
 */
void pccl_describe_difference(struct pccl_text *words, const struct pccl_described *a, const struct pccl_described *b);

/*
 * Describes the end of a link or of a connection attempt, for example "no answer". Returns "broken" if it is unknown.
 */
const char *pccl_link_end_name(enum pccl_link_end end);
/*
 * Appends a call with its round or, for an operation, its collective and tag. Examples: "update topology (round 3)",
 * "barrier tag 7".
 */
void pccl_describe_call(struct pccl_text *text, uint8_t call, uint8_t collective, uint64_t detail);
/* Appends missing members, for example "peer a (silent for 3 s; in its own work), peer b (...) and 7 more". */
void pccl_describe_places(struct pccl_text *text, const struct pccl_place *places, uint32_t count, uint32_t missing);
/* Returns advice on correcting a program whose peers wait for each other in these two calls (enum pccl_call). */
const char *pccl_describe_correction(uint8_t call, uint8_t other);

/* Returns the name of a class of verdicts, for example "slow link". */
const char *pccl_verdict_name(uint8_t class);
/*
 * Appends a verdict with its evidence, for example "slow link: from peer a to peer b: ...". other: zero unless the
 * verdict is about a link.
 */
void pccl_describe_verdict(struct pccl_text *text, uint8_t class, const struct pccl_id *peer,
                           const struct pccl_id *other, const char *evidence);

#endif
