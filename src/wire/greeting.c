#include "wire/greeting.h"

#include "core/bytes.h"

/* Sizes of the frozen parts of a greeting. A hello_ok has no magic. */
enum { MAGIC_BYTES = 8, VERSION_BYTES = 4, BUILD_BYTES = 40 };

/*
 * Reads the frozen beginning of a greeting. Before PCCL_GREETING_SINCE, a greeting begins with only the version; the
 * rest is set to 0. Returns false if it is not a greeting, because the magic is wrong or it is too short.
 */
static bool peek(uint16_t type, const uint8_t *body, size_t length, struct pccl_build *build)
{
    if (type != PCCL_MSG_hello && type != PCCL_MSG_hello_ok && type != PCCL_MSG_link_hello)
        return false;
    if (type != PCCL_MSG_hello_ok) {
        if (length < MAGIC_BYTES || pccl_get(body, 8) != PCCL_PROTOCOL_MAGIC)
            return false;
        body += MAGIC_BYTES;
        length -= MAGIC_BYTES;
    }
    if (length < VERSION_BYTES)
        return false;
    *build = (struct pccl_build){.version = (uint32_t)pccl_get(body, 4)};
    if (build->version < PCCL_GREETING_SINCE)
        return true;
    if (length < BUILD_BYTES)
        return false;
    build->digest = pccl_get(body + 4, 8);
    build->capabilities = pccl_get(body + 12, 8);
    build->release = (uint32_t)pccl_get(body + 20, 4);
    build->commit = pccl_get(body + 24, 8);
    build->committed = pccl_get(body + 32, 8);
    return true;
}

bool pccl_greeting_is_foreign(const struct pccl_build *own, const struct pccl_sides *sides,
                              const struct pccl_frame *frame, struct pccl_text *reason)
{
    struct pccl_build other;
    if (!peek(frame->type, frame->body, frame->length, &other) ||
        (other.version == own->version && other.digest == own->digest))
        return false;
    pccl_build_describe_difference(reason, own, &other, sides);
    return true;
}

/* ---- descriptions ---- */

static void add_hex(struct pccl_text *text, uint64_t value, uint32_t digits)
{
    for (uint32_t i = digits; i-- > 0;)
        pccl_text_add_bytes(text, &"0123456789abcdef"[value >> 4 * i & 15], 1);
}

void pccl_build_describe(struct pccl_text *text, const struct pccl_build *build)
{
    if (build->version < PCCL_GREETING_SINCE) {
        pccl_text_append(text, "of unknown version (protocol %u)", build->version);
        return;
    }
    pccl_text_append(text, "%u.%u.%u, commit ", build->release / 10000, build->release / 100 % 100,
                     build->release % 100);
    if (build->commit == 0) {
        pccl_text_add(text, "unknown");
    } else {
        const uint64_t day = build->committed / 1000000; /* YYYYMMDD */
        add_hex(text, build->commit >> 16, 12);
        pccl_text_append(text, " of %" PRIu64 "-%s%" PRIu64 "-%s%" PRIu64, day / 10000, day / 100 % 100 < 10 ? "0" : "",
                         day / 100 % 100, day % 100 < 10 ? "0" : "", day % 100);
    }
    pccl_text_append(text, " (protocol %u, schema ", build->version);
    add_hex(text, build->digest, 16);
    pccl_text_add(text, ")");
}

/*
 * Returns a negative number if `a` is older, a positive one if it is newer, and 0 if that is unknown. The protocol
 * version increases with every change of the wire format.
 */
static int compare_age(const struct pccl_build *a, const struct pccl_build *b)
{
    if (a->version != b->version)
        return a->version < b->version ? -1 : 1;
    if (a->commit != 0 && b->commit != 0 && a->committed != b->committed)
        return a->committed < b->committed ? -1 : 1;
    return a->release == b->release ? 0 : a->release < b->release ? -1 : 1;
}

void pccl_build_describe_difference(struct pccl_text *text, const struct pccl_build *own,
                                    const struct pccl_build *other, const struct pccl_sides *sides)
{
    int age = compare_age(own, other);
    pccl_text_format(text, "%s is PCCL ", sides->here);
    pccl_build_describe(text, own);
    pccl_text_append(text, ", %s is PCCL ", sides->there);
    pccl_build_describe(text, other);
    if (age != 0)
        pccl_text_append(text, ": upgrade %s", age < 0 ? sides->here : sides->there);
    else
        pccl_text_add(text, ": build both from the same commit");
}
