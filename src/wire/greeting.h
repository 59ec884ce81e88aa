/*
 * The beginning of a greeting (hello, hello_ok, link_hello), which is frozen for all versions: magic, version, digest
 * and the sender's build. It reveals incompatible builds before anything else is decoded.
 */
#ifndef PCCL_WIRE_GREETING_H
#define PCCL_WIRE_GREETING_H

#include "wire/frame.h"

/* First version whose frozen beginning has more than magic and version. */
enum { PCCL_GREETING_SINCE = 9 };

/* Names of the two sides, for example "this master" and "the peer". */
struct pccl_sides {
    const char *here, *there;
};

/*
 * Returns true if the frame is a greeting of a build with another version or digest. Sets a reason that names both
 * builds and the one to upgrade.
 */
PCCL_MUST_CHECK bool pccl_greeting_is_foreign(const struct pccl_build *own, const struct pccl_sides *sides,
                                              const struct pccl_frame *frame, struct pccl_text *reason);

/* Appends a build, for example "0.1.0, commit 0123456789ab of 2026-11-28 (protocol 9, schema 0123456789abcdef)". */
void pccl_build_describe(struct pccl_text *text, const struct pccl_build *build);
/* Replaces the text with both builds and the one to upgrade. */
void pccl_build_describe_difference(struct pccl_text *text, const struct pccl_build *own,
                                    const struct pccl_build *other, const struct pccl_sides *sides);

#endif
