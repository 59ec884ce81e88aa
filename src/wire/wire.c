/*
 * The codec: one loop over the field tables of layout.c for each purpose. It knows no message by
 * name except hellos.
 */
#include "wire/wire.h"

#include <string.h>

enum { PORT_AT = 16, ADDRESS_BYTES = 18 };
_Static_assert(offsetof(struct pccl_address, port) == PORT_AT, "an address is the same on the wire and in memory");

static const void *member(const void *object, size_t offset) { return (const uint8_t *)object + offset; }

static uint32_t count_of(const struct pccl_wire_field *field, const void *object)
{
    uint32_t count;
    memcpy(&count, member(object, field->count_offset), sizeof count);
    return count;
}

static const uint8_t *items_of(const struct pccl_wire_field *field, const void *object)
{
    const void *items;
    memcpy(&items, member(object, field->offset), sizeof items);
    return items;
}

/* What a field takes in any case. A struct takes what its fields take. */
static const uint8_t least_bytes[] = {
    [PCCL_WIRE_U8] = 1,
    [PCCL_WIRE_U16] = 2,
    [PCCL_WIRE_U32] = 4,
    [PCCL_WIRE_U64] = 8,
    [PCCL_WIRE_ID] = 16,
    [PCCL_WIRE_SECRET] = 16,
    [PCCL_WIRE_ADDRESS] = ADDRESS_BYTES,
    [PCCL_WIRE_BYTES] = 4,
    [PCCL_WIRE_TEXT] = 4,
    [PCCL_WIRE_LIST] = 4,
    [PCCL_WIRE_STRUCT] = 0,
};

/* On the wire an integer is what it is in the memory of a little-endian processor. Copies it there, or from there. */
static inline void copy_integer(void *to, const void *from, size_t width)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (size_t i = 0; i < width; i++)
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[width - 1 - i];
#else
    memcpy(to, from, width);
#endif
}

/* The same for a field of any constant size. */
static inline void copy_fixed(enum pccl_wire_kind kind, void *to, const void *from)
{
    switch (kind) {
    case PCCL_WIRE_U8: memcpy(to, from, 1); break;
    case PCCL_WIRE_U16: copy_integer(to, from, 2); break;
    case PCCL_WIRE_U32: copy_integer(to, from, 4); break;
    case PCCL_WIRE_U64: copy_integer(to, from, 8); break;
    default: memcpy(to, from, sizeof(struct pccl_id)); break;
    }
    if (kind == PCCL_WIRE_ADDRESS)
        copy_integer((uint8_t *)to + PORT_AT, (const uint8_t *)from + PORT_AT, 2);
}

static inline bool is_fixed(enum pccl_wire_kind kind) { return kind <= PCCL_WIRE_ADDRESS; }

/* Ids are the same bytes on the wire and in memory, and lists of them are long. */
static bool is_id(const struct pccl_wire_layout *item)
{
    return item->field_count == 1 && item->fields[0].kind == PCCL_WIRE_ID;
}

/* ---- size ---- */

static size_t size_of_object(const struct pccl_wire_layout *layout, const void *object);

static size_t size_of_field(const struct pccl_wire_field *field, const void *object)
{
    size_t size = least_bytes[field->kind];
    if (field->kind == PCCL_WIRE_BYTES || field->kind == PCCL_WIRE_TEXT)
        size += ((const struct pccl_bytes *)member(object, field->offset))->length;
    if (field->kind == PCCL_WIRE_STRUCT)
        size += size_of_object(field->layout(), member(object, field->offset));
    if (field->kind == PCCL_WIRE_LIST) {
        const struct pccl_wire_layout *item = field->layout();
        const uint8_t *items = items_of(field, object);
        uint32_t count = count_of(field, object);
        size += (size_t)count * item->fixed;
        for (uint32_t i = 0; i < count && item->fixed == 0; i++)
            size += size_of_object(item, items + (size_t)i * item->size);
    }
    return size;
}

static size_t size_of_object(const struct pccl_wire_layout *layout, const void *object)
{
    if (layout->fixed > 0)
        return layout->fixed;
    size_t size = 0;
    for (uint32_t i = 0; i < layout->field_count; i++)
        size += size_of_field(&layout->fields[i], object);
    return size;
}

size_t pccl_wire_size(const struct pccl_msg *msg)
{
    const struct pccl_wire_layout *layout = pccl_wire_layout_of(msg->type);
    PCCL_ASSERT(layout != NULL);
    return size_of_object(layout, &msg->as);
}

/* ---- encode ---- */

static uint8_t *encode_object(const struct pccl_wire_layout *layout, const void *object, uint8_t *at);

static inline uint8_t *encode_bytes(const void *data, size_t length, uint8_t *at)
{
    if (length > 0)
        memcpy(at, data, length);
    return at + length;
}

static inline uint8_t *encode_length(uint32_t length, uint8_t *at)
{
    copy_integer(at, &length, 4);
    return at + 4;
}

static uint8_t *encode_list(const struct pccl_wire_field *field, const void *object, uint8_t *at)
{
    const struct pccl_wire_layout *item = field->layout();
    const uint8_t *items = items_of(field, object);
    uint32_t count = count_of(field, object);
    PCCL_ASSERT(count <= field->cap);
    at = encode_length(count, at);
    if (is_id(item))
        return encode_bytes(items, count * sizeof(struct pccl_id), at);
    for (uint32_t i = 0; i < count; i++)
        at = encode_object(item, items + (size_t)i * item->size, at);
    return at;
}

static uint8_t *encode_text(const struct pccl_wire_field *field, const struct pccl_bytes *bytes, uint8_t *at)
{
    PCCL_ASSERT(bytes->length <= field->cap);
    return encode_bytes(bytes->data, bytes->length, encode_length(bytes->length, at));
}

static inline uint8_t *encode_field(const struct pccl_wire_field *field, const void *object, uint8_t *at)
{
    const void *value = member(object, field->offset);
    if (is_fixed(field->kind)) {
        copy_fixed(field->kind, at, value);
        return at + least_bytes[field->kind];
    }
    if (field->kind == PCCL_WIRE_STRUCT)
        return encode_object(field->layout(), value, at);
    return field->kind == PCCL_WIRE_LIST ? encode_list(field, object, at) : encode_text(field, value, at);
}

static uint8_t *encode_object(const struct pccl_wire_layout *layout, const void *object, uint8_t *at)
{
    for (uint32_t i = 0; i < layout->field_count; i++)
        at = encode_field(&layout->fields[i], object, at);
    return at;
}

size_t pccl_wire_encode(const struct pccl_msg *msg, uint8_t *body)
{
    const struct pccl_wire_layout *layout = pccl_wire_layout_of(msg->type);
    PCCL_ASSERT(layout != NULL);
    return (size_t)(encode_object(layout, &msg->as, body) - body);
}

/* ---- decode ---- */

struct decoder {
    const uint8_t *at;
    size_t left;
    struct pccl_wire_scratch *scratch;
    size_t scratch_used;
    const struct pccl_wire_layout *layout; /* of the object being decoded, named in the reason */
    struct pccl_text *reason;
};

static bool decode_object(struct decoder *d, const struct pccl_wire_layout *layout, void *object);

static bool fail(struct decoder *d, const struct pccl_wire_field *field, const char *why)
{
    pccl_text_format(d->reason, "%s.%s %s", d->layout->name, field->name, why);
    return false;
}

/* Takes a view of the next bytes. NULL: the body is truncated. */
static const uint8_t *take(struct decoder *d, const struct pccl_wire_field *field, size_t length)
{
    if (length > d->left) {
        (void)fail(d, field, "is truncated");
        return NULL;
    }
    const uint8_t *taken = d->at;
    d->at += length;
    d->left -= length;
    return taken;
}

static bool fail_beyond(struct decoder *d, const struct pccl_wire_field *field, uint64_t value)
{
    pccl_text_format(d->reason, "%s.%s is %" PRIu64 ", not within %" PRIu64 " and %" PRIu64, d->layout->name,
                     field->name, value, field->least, field->most);
    return false;
}

/* Checks the value of a field of constant size. */
static inline bool is_within(struct decoder *d, const struct pccl_wire_field *field, const void *value)
{
    uint64_t integer;
    switch (field->kind) {
    case PCCL_WIRE_U8: integer = *(const uint8_t *)value; break;
    case PCCL_WIRE_U16: integer = *(const uint16_t *)value; break;
    case PCCL_WIRE_U32: integer = *(const uint32_t *)value; break;
    case PCCL_WIRE_U64: integer = *(const uint64_t *)value; break;
    default: return field->least == 0 || !pccl_id_is_zero(value) || fail(d, field, "is zero");
    }
    return (integer >= field->least && integer <= field->most) || fail_beyond(d, field, integer);
}

static bool is_short(struct decoder *d, const struct pccl_wire_field *field, uint32_t length)
{
    if (length <= field->cap)
        return true;
    pccl_text_format(d->reason, "%s.%s has length %u, at most %u is allowed", d->layout->name, field->name, length,
                     field->cap);
    return false;
}

static bool is_printable(const uint8_t *bytes, size_t length)
{
    size_t size;
    for (size_t at = 0; at < length; at += size) {
        size = pccl_text_character((const char *)bytes + at, length - at);
        if (size == 0)
            return false;
    }
    return true;
}

static bool decode_bytes(struct decoder *d, const struct pccl_wire_field *field, uint32_t length, void *object)
{
    struct pccl_bytes *bytes = (void *)((uint8_t *)object + field->offset);
    bytes->data = take(d, field, length);
    bytes->length = length;
    if (bytes->data == NULL)
        return false;
    if (field->kind == PCCL_WIRE_TEXT && !is_printable(bytes->data, length))
        return fail(d, field, "is no printable text");
    return true;
}

static bool decode_ids(struct decoder *d, const struct pccl_wire_layout *item, uint32_t count, void *items)
{
    const struct pccl_id *ids = items;
    const uint8_t *bytes = take(d, &item->fields[0], count * sizeof *ids);
    if (bytes == NULL)
        return false;
    memcpy(items, bytes, count * sizeof *ids);
    for (uint32_t i = 0; i < count; i++)
        if (pccl_id_is_zero(&ids[i]))
            return fail(d, &item->fields[0], "is zero");
    return true;
}

static bool decode_list(struct decoder *d, const struct pccl_wire_field *field, uint32_t count, void *object)
{
    const struct pccl_wire_layout *item = field->layout();
    size_t start = (d->scratch_used + 15) / 16 * 16;
    PCCL_ASSERT(start + (size_t)count * item->size <=
                PCCL_WIRE_SCRATCH_BYTES); /* layout.c proves it for every message */
    uint8_t *items = d->scratch->bytes + start;
    d->scratch_used = start + (size_t)count * item->size;
    if (is_id(item) && !decode_ids(d, item, count, items))
        return false;
    for (uint32_t i = 0; i < count && !is_id(item); i++) {
        uint8_t *one = items + (size_t)i * item->size;
        memset(one, 0, item->size);
        if (!decode_object(d, item, one))
            return false;
    }
    const void *list = items;
    memcpy((uint8_t *)object + field->offset, &list, sizeof list);
    memcpy((uint8_t *)object + field->count_offset, &count, sizeof count);
    return true;
}

static bool decode_counted(struct decoder *d, const struct pccl_wire_field *field, void *object)
{
    uint32_t length;
    const uint8_t *bytes = take(d, field, sizeof length);
    if (bytes == NULL)
        return false;
    copy_integer(&length, bytes, sizeof length);
    if (!is_short(d, field, length))
        return false;
    return field->kind == PCCL_WIRE_LIST ? decode_list(d, field, length, object)
                                         : decode_bytes(d, field, length, object);
}

static inline bool decode_fixed(struct decoder *d, const struct pccl_wire_field *field, void *value)
{
    const uint8_t *bytes = take(d, field, least_bytes[field->kind]);
    if (bytes == NULL)
        return false;
    copy_fixed(field->kind, value, bytes);
    return is_within(d, field, value);
}

static inline bool decode_field(struct decoder *d, const struct pccl_wire_field *field, void *object)
{
    void *value = (uint8_t *)object + field->offset;
    if (is_fixed(field->kind))
        return decode_fixed(d, field, value);
    return field->kind == PCCL_WIRE_STRUCT ? decode_object(d, field->layout(), value)
                                           : decode_counted(d, field, object);
}

/* Into memory that was cleared, padding too, so that equal messages are equal bytes. */
static bool decode_object(struct decoder *d, const struct pccl_wire_layout *layout, void *object)
{
    const struct pccl_wire_layout *outer = d->layout;
    d->layout = layout;
    for (uint32_t i = 0; i < layout->field_count; i++)
        if (!decode_field(d, &layout->fields[i], object))
            return false;
    d->layout = outer;
    return true;
}

enum pccl_status pccl_wire_decode(uint16_t type, const uint8_t *body, size_t length, struct pccl_wire_scratch *scratch,
                                  struct pccl_msg *msg, struct pccl_text *reason)
{
    static const uint8_t empty;
    const struct pccl_wire_layout *layout = pccl_wire_layout_of(type);
    memset(msg, 0, sizeof *msg);
    if (layout == NULL) {
        pccl_text_format(reason, "message type %u is unknown", type);
        return PCCL_MALFORMED;
    }
    struct decoder decoder = {.at = length > 0 ? body : &empty, .left = length, .scratch = scratch, .reason = reason};
    bool valid = decode_object(&decoder, layout, &msg->as);
    msg->type = type;
    if (valid && decoder.left > 0) {
        pccl_text_format(reason, "%s has %zu bytes too many", layout->name, decoder.left);
        valid = false;
    }
    const char *broken = valid ? pccl_wire_invalid(msg) : NULL;
    if (broken != NULL)
        pccl_text_format(reason, "%s: %s", layout->name, broken);
    if (valid && broken == NULL)
        return PCCL_OK;
    memset(msg, 0, sizeof *msg);
    return PCCL_MALFORMED;
}

/* ---- before encoding ---- */

static inline bool is_between(uint64_t value, uint64_t least, uint64_t most) { return value >= least && value <= most; }

/* clang-format off */
#define WITHIN_INTEGER(name, least, most, greatest)                                                                    \
    && is_between(descriptor->name, least + 0, (most + 0) > 0 ? (uint64_t)(most + 0) : (greatest))
#define WITHIN_U8(name, least, most) WITHIN_INTEGER(name, least, most, UINT8_MAX)
#define WITHIN_U16(name, least, most) WITHIN_INTEGER(name, least, most, UINT16_MAX)
#define WITHIN_U32(name, least, most) WITHIN_INTEGER(name, least, most, UINT32_MAX)
#define WITHIN_U64(name, least, most) WITHIN_INTEGER(name, least, most, UINT64_MAX)
#define WITHIN_ID(name, least, most)
#define WITHIN_STRUCT(name, type, most)
#define WITHIN(kind, name, type, cap) WITHIN_##kind(name, type, cap)
/* clang-format on */

/* Like are_within, without a message: each launch calls it. */
static bool is_in_range(const struct pccl_descriptor *descriptor) { return true PCCL_FIELDS_descriptor(WITHIN); }

/* The label may be anything. */
static bool are_within(struct decoder *d, const struct pccl_descriptor *descriptor)
{
    for (uint32_t i = 0; i < d->layout->field_count; i++) {
        const struct pccl_wire_field *field = &d->layout->fields[i];
        if (is_fixed(field->kind) && !is_within(d, field, member(descriptor, field->offset)))
            return false;
    }
    return true;
}

enum pccl_status pccl_wire_check_descriptor(const struct pccl_descriptor *descriptor, bool tiny,
                                            struct pccl_text *reason)
{
    if (!is_in_range(descriptor)) {
        struct decoder decoder = {.layout = pccl_wire_descriptor_layout(), .reason = reason};
        bool within = are_within(&decoder, descriptor);
        PCCL_ASSERT(!within);
        return PCCL_MALFORMED;
    }
    const char *broken = pccl_wire_invalid_descriptor(descriptor, tiny);
    if (broken != NULL)
        pccl_text_format(reason, "%s", broken);
    return broken == NULL ? PCCL_OK : PCCL_MALFORMED;
}
