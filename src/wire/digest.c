#include "wire/digest.h"

uint64_t pccl_digest_numbers(uint64_t digest, const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (uint32_t shift = 0; shift < 64; shift += 8)
            digest = (digest ^ (numbers[i] >> shift & 0xff)) * UINT64_C(0x100000001b3);
    return digest;
}

uint64_t pccl_digest_layout(uint64_t digest, const struct pccl_wire_layout *layout)
{
    digest = pccl_digest_numbers(digest, (const uint64_t[]){layout->field_count}, 1);
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct pccl_wire_field *field = &layout->fields[i];
        digest = pccl_digest_numbers(digest, (const uint64_t[]){field->kind, field->cap, field->least, field->most}, 4);
        if (field->layout != NULL)
            digest = pccl_digest_layout(digest, field->layout());
    }
    return digest;
}

uint64_t pccl_wire_digest(void)
{
    uint64_t digest = PCCL_DIGEST_START;
    for (uint16_t type = 0; type < PCCL_MSG_TYPES_MAX; type++) {
        const struct pccl_wire_layout *layout = pccl_wire_layout_of(type);
        if (layout == NULL)
            continue;
        digest = pccl_digest_numbers(digest, (const uint64_t[]){type}, 1);
        digest = pccl_digest_layout(digest, layout);
    }
#define VALUE(name, value, words) value,
#define ENUMERATION(name, where)                                                                                       \
    {                                                                                                                  \
        static const uint64_t values[] = {PCCL_ENUM_##name(VALUE)};                                                    \
        digest = pccl_digest_numbers(digest, (const uint64_t[]){PCCL_COUNT_OF(values)}, 1);                            \
        digest = pccl_digest_numbers(digest, values, PCCL_COUNT_OF(values));                                           \
    }
    PCCL_WIRE_ENUMS(ENUMERATION)
#undef ENUMERATION
#undef VALUE
    return digest;
}
