/* Equality, order and hashes of the small structs of the schema. */
#include "wire/packing.h"

#include <string.h>

int pccl_epoch_compare(const struct pccl_epoch *a, const struct pccl_epoch *b)
{
    if (a->inc != b->inc)
        return a->inc < b->inc ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return 0;
}

bool pccl_epoch_equal(const struct pccl_epoch *a, const struct pccl_epoch *b) { return pccl_epoch_compare(a, b) == 0; }

bool pccl_view_is_past(const struct pccl_instance *instance, const struct pccl_epoch *view,
                       const struct pccl_epoch *present)
{
    return pccl_is_of_whole_group(instance) && pccl_epoch_compare(view, present) < 0;
}

enum pccl_call pccl_call_of_round(uint8_t kind)
{
    switch (kind) {
    case PCCL_ROUND_UPDATE: return PCCL_CALL_UPDATE;
    case PCCL_ROUND_PENDING: return PCCL_CALL_PENDING;
    case PCCL_ROUND_OPTIMIZE: return PCCL_CALL_OPTIMIZE;
    default: return PCCL_CALL_SYNC;
    }
}

bool pccl_instance_equal(const struct pccl_instance *a, const struct pccl_instance *b)
{
    return a->subgroup == b->subgroup && a->pair == b->pair && a->joint == b->joint && a->sync == b->sync &&
           a->tag == b->tag && a->use == b->use;
}

static uint32_t upper(uint64_t value) { return (uint32_t)(value >> 32); }

uint64_t pccl_instance_hash(const struct pccl_hash_key *key, const struct pccl_instance *i)
{
    const uint32_t words[] = {i->use,         (uint32_t)i->subgroup, upper(i->subgroup), (uint32_t)i->pair,
                              upper(i->pair), (uint32_t)i->joint,    upper(i->joint),    (uint32_t)i->sync,
                              upper(i->sync), (uint32_t)i->tag,      upper(i->tag)};
    _Static_assert(sizeof words == PCCL_HASH_WORDS * sizeof *words, "no more than there are factors");
    return pccl_hash_words(key, words, PCCL_HASH_WORDS);
}

bool pccl_budget_equal(const struct pccl_descriptor *a, const struct pccl_descriptor *b)
{
    return a->budget_ms == b->budget_ms && a->budget_percent == b->budget_percent;
}

bool pccl_descriptor_equal(const struct pccl_descriptor *a, const struct pccl_descriptor *b)
{
    return a->collective == b->collective && a->datatype == b->datatype && a->operation == b->operation &&
           pccl_packing_equal(a, b) && pccl_budget_equal(a, b) && a->count == b->count &&
           pccl_id_equal(&a->root, &b->root) && pccl_id_equal(&a->counts, &b->counts) &&
           pccl_label_equal(&a->label, &b->label);
}

bool pccl_label_equal(const struct pccl_label *a, const struct pccl_label *b)
{
    return pccl_id_equal(&a->head, &b->head) && pccl_id_equal(&a->tail, &b->tail);
}

_Static_assert(sizeof(struct pccl_label) == PCCL_LABEL_MAX, "its bytes, one after the other");

bool pccl_label_of(const char *text, struct pccl_label *label)
{
    struct pccl_bytes bytes = pccl_bytes_of_string(text);
    *label = (struct pccl_label){0};
    if (bytes.length > PCCL_LABEL_MAX)
        return false;
    for (uint32_t at = 0, size; at < bytes.length; at += size) {
        size = (uint32_t)pccl_text_character(text + at, bytes.length - at);
        if (size == 0)
            return false;
    }
    memcpy(label, text, bytes.length);
    return true;
}

struct pccl_bytes pccl_bytes_of_label(const struct pccl_label *label)
{
    struct pccl_bytes bytes = {.data = (const uint8_t *)label};
    while (bytes.length < PCCL_LABEL_MAX && bytes.data[bytes.length] != '\0')
        bytes.length++;
    return bytes;
}

struct pccl_bytes pccl_bytes_of_text(const struct pccl_text *text)
{
    return (struct pccl_bytes){(const uint8_t *)text->bytes, text->length};
}

struct pccl_bytes pccl_bytes_of_secret(const struct pccl_id *secret)
{
    return (struct pccl_bytes){secret->bytes, sizeof secret->bytes};
}

struct pccl_bytes pccl_bytes_of_string(const char *text)
{
    uint32_t length = 0;
    while (length < PCCL_REASON_MAX && text[length] != '\0')
        length++;
    return (struct pccl_bytes){(const uint8_t *)text, length};
}

bool pccl_digest_equal(const struct pccl_digest *a, const struct pccl_digest *b)
{
    return a->low == b->low && a->high == b->high;
}

bool pccl_proof_equal(const struct pccl_proof *a, const struct pccl_proof *b)
{
    return pccl_id_equal(&a->low, &b->low) && pccl_id_equal(&a->high, &b->high);
}

bool pccl_proof_is_zero(const struct pccl_proof *proof)
{
    return pccl_id_is_zero(&proof->low) && pccl_id_is_zero(&proof->high);
}
