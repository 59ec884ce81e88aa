/*
 * Constant tables of the fields of each struct and message, generated from schema.h, and the codec, which consists of
 * one loop over these tables for each purpose. It names no message.
 */
#include "wire/wire.h"

#include <string.h>

/* ---- schema.h as data: maximum sizes ---- */

/* Maximum encoded size of a field in bytes. */
/* clang-format off */
#define WIRE_U8(type, cap) +1
#define WIRE_U16(type, cap) +2
#define WIRE_U32(type, cap) +4
#define WIRE_U64(type, cap) +8
#define WIRE_ID(type, cap) +16
#define WIRE_SECRET(type, cap) +16
#define WIRE_ADDRESS(type, cap) +18
#define WIRE_BYTES(type, cap) +4 + (cap)
#define WIRE_TEXT(type, cap) +4 + (cap)
#define WIRE_STRUCT(type, cap) +WIRE_MOST_##type
#define WIRE_LIST(type, cap) +4 + (cap) * WIRE_MOST_##type
#define WIRE_FIELD(kind, name, type, cap) WIRE_##kind(type, cap)

/* Maximum size of a decoded list, or of a random text, in the scratch. */
#define SCRATCH_U8(type, cap)
#define SCRATCH_U16(type, cap)
#define SCRATCH_U32(type, cap)
#define SCRATCH_U64(type, cap)
#define SCRATCH_ID(type, cap)
#define SCRATCH_SECRET(type, cap)
#define SCRATCH_ADDRESS(type, cap)
#define SCRATCH_BYTES(type, cap) +(cap) + 16
#define SCRATCH_TEXT(type, cap) +(cap) + 16
#define SCRATCH_STRUCT(type, cap) +SCRATCH_MOST_##type
#define SCRATCH_LIST(type, cap) +(cap) * (sizeof(struct pccl_##type) + SCRATCH_MOST_##type) + 16
#define SCRATCH_FIELD(kind, name, type, cap) SCRATCH_##kind(type, cap)

/* clang-format on */

enum {
    SCRATCH_MOST_id = 0,
    SCRATCH_MOST_address = 0,
#define SCRATCH_MOST(name) SCRATCH_MOST_##name = 0 PCCL_FIELDS_##name(SCRATCH_FIELD),
    PCCL_WIRE_STRUCTS(SCRATCH_MOST) WIRE_MOST_id = 16,
    WIRE_MOST_address = 18,
#define WIRE_MOST(name) WIRE_MOST_##name = 0 PCCL_FIELDS_##name(WIRE_FIELD),
    PCCL_WIRE_STRUCTS(WIRE_MOST)
#define MESSAGE_MOST(id, name, about) MESSAGE_MOST_##name = 0 PCCL_FIELDS_##name(WIRE_FIELD),
        PCCL_WIRE_MESSAGES(MESSAGE_MOST)
};

/* Encoded size of a struct if it is constant and needs no scratch, otherwise 0. */
#define FIXED(most, scratch) ((scratch) == 0 ? (most) : 0)

/*
 * ---- schema.h as data: tables, each in a function, so that the rows of the schema can call their struct `here` ----
 */

/* clang-format off */
#define FIELD_INTEGER(kind, name, least, most, greatest)                                                               \
    {#name, PCCL_WIRE_##kind, 0, (uint64_t)(least + 0), (most + 0) > 0 ? (uint64_t)(most + 0) : greatest,              \
     offsetof(here, name), 0, NULL},
#define FIELD_PLAIN(kind, name, least, cap)                                                                            \
    {#name, PCCL_WIRE_##kind, (uint32_t)(cap + 0), (uint64_t)(least + 0), UINT64_MAX, offsetof(here, name), 0, NULL},
/* clang-format on */
#define FIELD_U8(name, least, most) FIELD_INTEGER(U8, name, least, most, UINT8_MAX)
#define FIELD_U16(name, least, most) FIELD_INTEGER(U16, name, least, most, UINT16_MAX)
#define FIELD_U32(name, least, most) FIELD_INTEGER(U32, name, least, most, UINT32_MAX)
#define FIELD_U64(name, least, most) FIELD_INTEGER(U64, name, least, most, UINT64_MAX)
#define FIELD_ID(name, least, cap) FIELD_PLAIN(ID, name, least, 0)
#define FIELD_SECRET(name, least, cap) FIELD_PLAIN(SECRET, name, least, 0)
#define FIELD_ADDRESS(name, type, cap) FIELD_PLAIN(ADDRESS, name, 0, 0)
#define FIELD_BYTES(name, type, cap) FIELD_PLAIN(BYTES, name, 0, cap)
#define FIELD_TEXT(name, type, cap) FIELD_PLAIN(TEXT, name, 0, cap)
#define FIELD_STRUCT(name, type, cap)                                                                                  \
    {#name, PCCL_WIRE_STRUCT, 0, 0, UINT64_MAX, offsetof(here, name), 0, layout_##type},
#define FIELD_LIST(name, type, cap)                                                                                    \
    {#name, PCCL_WIRE_LIST, cap, 0, UINT64_MAX, offsetof(here, name), offsetof(here, name##_count), layout_##type},
#define FIELD(kind, name, type, cap) FIELD_##kind(name, type, cap)

#define LAYOUT(function, tag, shown, says, number, fixed, ...)                                                         \
    static const struct pccl_wire_layout *function(void)                                                               \
    {                                                                                                                  \
        typedef struct tag here;                                                                                       \
        static const struct pccl_wire_field fields[] = {__VA_ARGS__};                                                  \
        static const struct pccl_wire_layout layout = {                                                                \
            shown, says, number, sizeof(here), fixed, PCCL_COUNT_OF(fields), fields};                                  \
        return &layout;                                                                                                \
    }

/* A list item may be an id instead of a struct of the schema. An id names a peer, so zero is invalid. */
LAYOUT(layout_id, pccl_id, "id", NULL, 0, WIRE_MOST_id, {"id", PCCL_WIRE_ID, 0, 1, UINT64_MAX, 0, 0, NULL})
LAYOUT(layout_address, pccl_address, "address", NULL, 0, WIRE_MOST_address,
       {"address", PCCL_WIRE_ADDRESS, 0, 0, UINT64_MAX, 0, 0, NULL})

#define STRUCT_LAYOUT(name)                                                                                            \
    LAYOUT(layout_##name, pccl_##name, #name, NULL, 0, FIXED(WIRE_MOST_##name, SCRATCH_MOST_##name),                   \
           PCCL_FIELDS_##name(FIELD))
PCCL_WIRE_STRUCTS(STRUCT_LAYOUT)

#define MESSAGE_LAYOUT(id, name, about)                                                                                \
    LAYOUT(message_##name, pccl_msg_##name, #name, about, id,                                                          \
           FIXED(MESSAGE_MOST_##name, 0 PCCL_FIELDS_##name(SCRATCH_FIELD)), PCCL_FIELDS_##name(FIELD))
PCCL_WIRE_MESSAGES(MESSAGE_LAYOUT)

const struct pccl_wire_layout *pccl_wire_layout_of(uint16_t type)
{
    switch (type) {
#define LAYOUT_CASE(id, name, about)                                                                                   \
    case id: return message_##name();
        PCCL_WIRE_MESSAGES(LAYOUT_CASE)
#undef LAYOUT_CASE
    default: return NULL;
    }
}

const struct pccl_wire_layout *pccl_wire_struct_layout(uint32_t index)
{
#define STRUCT_ROW(name) layout_##name,
    static const struct pccl_wire_layout *(*const structs[])(void) = {PCCL_WIRE_STRUCTS(STRUCT_ROW)};
#undef STRUCT_ROW
    return index < PCCL_COUNT_OF(structs) ? structs[index]() : NULL;
}

const char *pccl_wire_name(uint16_t type)
{
    const struct pccl_wire_layout *layout = pccl_wire_layout_of(type);
    return layout != NULL ? layout->name : "?";
}

const char *pccl_wire_kind_name(enum pccl_wire_kind kind)
{
    static const char *const names[] = {
        [PCCL_WIRE_U8] = "u8",       [PCCL_WIRE_U16] = "u16",         [PCCL_WIRE_U32] = "u32",
        [PCCL_WIRE_U64] = "u64",     [PCCL_WIRE_ID] = "id",           [PCCL_WIRE_SECRET] = "secret",
        [PCCL_WIRE_BYTES] = "bytes", [PCCL_WIRE_ADDRESS] = "address", [PCCL_WIRE_TEXT] = "text",
        [PCCL_WIRE_LIST] = "list",   [PCCL_WIRE_STRUCT] = "struct",
    };
    return names[kind];
}

/* ---- limits that hold by construction ---- */

#define CHECK(id, name, about)                                                                                         \
    _Static_assert((id) > 0 && (id) < PCCL_MSG_TYPES_MAX, #name);                                                      \
    _Static_assert((size_t)MESSAGE_MOST_##name <= PCCL_FRAME_BODY_MAX, #name);                                         \
    _Static_assert((0 PCCL_FIELDS_##name(SCRATCH_FIELD)) <= PCCL_WIRE_SCRATCH_BYTES, #name);
PCCL_WIRE_MESSAGES(CHECK)
_Static_assert((size_t)MESSAGE_MOST_hello <= PCCL_FRAME_HELLO_MAX, "a hello must fit before it is accepted");
_Static_assert((size_t)MESSAGE_MOST_refused <= PCCL_FRAME_HELLO_MAX, "its refusal must fit");
_Static_assert((size_t)MESSAGE_MOST_hello_ok <= PCCL_FRAME_HELLO_MAX, "its answer must fit");
_Static_assert((size_t)MESSAGE_MOST_link_hello <= PCCL_FRAME_HELLO_MAX, "a hello must fit before it is accepted");

/* ---- fields ---- */

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

/* Minimum encoded size of a field in bytes. For a struct it depends on the fields. */
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

/* Copies an integer between memory and the little-endian wire format. */
static inline void copy_integer(void *to, const void *from, size_t width)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (size_t i = 0; i < width; i++)
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[width - 1 - i];
#else
    memcpy(to, from, width);
#endif
}

/* Copies a field of constant size in the same way. Returns that size. */
static inline size_t copy_fixed(enum pccl_wire_kind kind, void *to, const void *from)
{
    switch (kind) {
    case PCCL_WIRE_U8: memcpy(to, from, 1); return 1;
    case PCCL_WIRE_U16: copy_integer(to, from, 2); return 2;
    case PCCL_WIRE_U32: copy_integer(to, from, 4); return 4;
    case PCCL_WIRE_U64: copy_integer(to, from, 8); return 8;
    case PCCL_WIRE_ADDRESS: copy_integer((uint8_t *)to + PORT_AT, (const uint8_t *)from + PORT_AT, 2); break;
    default: break;
    }
    memcpy(to, from, sizeof(struct pccl_id));
    return kind == PCCL_WIRE_ADDRESS ? ADDRESS_BYTES : sizeof(struct pccl_id);
}

static inline bool is_fixed(enum pccl_wire_kind kind) { return kind <= PCCL_WIRE_ADDRESS; }

/*
 * Returns true for a list of ids. These can be copied as a whole, because ids are the same in memory and on the wire,
 * and such lists are long.
 */
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
    if (is_fixed(field->kind))
        return at + copy_fixed(field->kind, at, value);
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
    const struct pccl_wire_layout *layout; /* layout of the object being decoded, for the reason */
    struct pccl_text *reason;
};

static bool decode_object(struct decoder *d, const struct pccl_wire_layout *layout, void *object);

static bool fail(struct decoder *d, const struct pccl_wire_field *field, const char *why)
{
    pccl_text_format(d->reason, "%s.%s %s", d->layout->name, field->name, why);
    return false;
}

/* Returns a view of the next `length` bytes and skips them. Returns NULL if the body is truncated. */
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
    pccl_text_format(d->reason, "%s.%s is %" PRIu64 ": expected %" PRIu64 " to %" PRIu64, d->layout->name, field->name,
                     value, field->least, field->most);
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
    pccl_text_format(d->reason, "%s.%s has length %u: expected at most %u", d->layout->name, field->name, length,
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
        return fail(d, field, "is not printable text");
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
    /* Verified at compile time for every message. */
    PCCL_ASSERT(start + (size_t)count * item->size <= PCCL_WIRE_SCRATCH_BYTES);
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
    (void)copy_fixed(field->kind, value, bytes);
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

/* Decodes into zeroed memory, including padding, so that equal messages have equal bytes. */
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
    if (layout == NULL)
        return pccl_fail(reason, PCCL_MALFORMED, "unknown message type %u", type);
    struct decoder decoder = {.at = length > 0 ? body : &empty, .left = length, .scratch = scratch, .reason = reason};
    bool valid = decode_object(&decoder, layout, &msg->as);
    msg->type = type;
    if (valid && decoder.left > 0) {
        pccl_text_format(reason, "%s: %zu unexpected bytes after the last field", layout->name, decoder.left);
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

/* Does the same as are_within, but sets no reason. Fast, because each launch calls it. */
static bool is_in_range(const struct pccl_descriptor *descriptor) { return true PCCL_FIELDS_descriptor(WITHIN); }

/* Checks the descriptor's fields, except the label, which may be anything. */
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
        struct decoder decoder = {.layout = layout_descriptor(), .reason = reason};
        bool within = are_within(&decoder, descriptor);
        PCCL_ASSERT(!within);
        return PCCL_MALFORMED;
    }
    const char *broken = pccl_wire_invalid_descriptor(descriptor, tiny);
    if (broken != NULL)
        pccl_text_format(reason, "%s", broken);
    return broken == NULL ? PCCL_OK : PCCL_MALFORMED;
}
