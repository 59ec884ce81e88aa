/*
 * The codec: one loop over the field tables of layout.c for each purpose. It knows no message by
 * name except hellos.
 */
#include "wire/wire.h"

#include "core/bytes.h"

#include <string.h>

enum { ADDRESS_BYTES = 18 };

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

/* ---- size ---- */

static size_t size_of_object(const struct pccl_wire_layout *layout, const void *object);

static size_t size_of_field(const struct pccl_wire_field *field, const void *object)
{
    switch (field->kind) {
    case PCCL_WIRE_U8: return 1;
    case PCCL_WIRE_U16: return 2;
    case PCCL_WIRE_U32: return 4;
    case PCCL_WIRE_U64: return 8;
    case PCCL_WIRE_ID:
    case PCCL_WIRE_SECRET: return sizeof(struct pccl_id);
    case PCCL_WIRE_ADDRESS: return ADDRESS_BYTES;
    case PCCL_WIRE_BYTES:
    case PCCL_WIRE_TEXT: return 4 + ((const struct pccl_bytes *)member(object, field->offset))->length;
    case PCCL_WIRE_STRUCT: return size_of_object(field->layout(), member(object, field->offset));
    case PCCL_WIRE_LIST: break;
    }
    const struct pccl_wire_layout *item = field->layout();
    const uint8_t *items = items_of(field, object);
    uint32_t count = count_of(field, object);
    size_t size = 4;
    for (uint32_t i = 0; i < count; i++)
        size += size_of_object(item, items + (size_t)i * item->size);
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

static uint8_t *encode_bytes(const void *data, size_t length, uint8_t *at)
{
    if (length > 0)
        memcpy(at, data, length);
    return at + length;
}

static uint8_t *encode_integer(uint64_t value, uint32_t width, uint8_t *at)
{
    pccl_put(at, width, value);
    return at + width;
}

static uint8_t *encode_list(const struct pccl_wire_field *field, const void *object, uint8_t *at)
{
    const struct pccl_wire_layout *item = field->layout();
    const uint8_t *items = items_of(field, object);
    uint32_t count = count_of(field, object);
    PCCL_ASSERT(count <= field->cap);
    at = encode_integer(count, 4, at);
    for (uint32_t i = 0; i < count; i++)
        at = encode_object(item, items + (size_t)i * item->size, at);
    return at;
}

static uint8_t *encode_field(const struct pccl_wire_field *field, const void *object, uint8_t *at)
{
    const void *value = member(object, field->offset);
    switch (field->kind) {
    case PCCL_WIRE_U8: return encode_integer(*(const uint8_t *)value, 1, at);
    case PCCL_WIRE_U16: return encode_integer(*(const uint16_t *)value, 2, at);
    case PCCL_WIRE_U32: return encode_integer(*(const uint32_t *)value, 4, at);
    case PCCL_WIRE_U64: return encode_integer(*(const uint64_t *)value, 8, at);
    case PCCL_WIRE_ID:
    case PCCL_WIRE_SECRET: return encode_bytes(value, sizeof(struct pccl_id), at);
    case PCCL_WIRE_ADDRESS: {
        const struct pccl_address *address = value;
        return encode_integer(address->port, 2, encode_bytes(address->ip, 16, at));
    }
    case PCCL_WIRE_BYTES:
    case PCCL_WIRE_TEXT: {
        const struct pccl_bytes *bytes = value;
        PCCL_ASSERT(bytes->length <= field->cap);
        return encode_bytes(bytes->data, bytes->length, encode_integer(bytes->length, 4, at));
    }
    case PCCL_WIRE_STRUCT: return encode_object(field->layout(), value, at);
    case PCCL_WIRE_LIST: break;
    }
    return encode_list(field, object, at);
}

static uint8_t *encode_object(const struct pccl_wire_layout *layout, const void *object, uint8_t *at)
{
    for (uint32_t i = 0; i < layout->field_count; i++)
        at = encode_field(&layout->fields[i], object, at);
    return at;
}

void pccl_wire_encode(const struct pccl_msg *msg, uint8_t *body)
{
    const struct pccl_wire_layout *layout = pccl_wire_layout_of(msg->type);
    PCCL_ASSERT(layout != NULL);
    (void)encode_object(layout, &msg->as, body);
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

static bool decode_integer(struct decoder *d, const struct pccl_wire_field *field, uint32_t width, uint64_t *value)
{
    const uint8_t *bytes = take(d, field, width);
    if (bytes == NULL)
        return false;
    *value = pccl_get(bytes, width);
    if (*value < field->least || *value > field->most) {
        pccl_text_format(d->reason, "%s.%s is %" PRIu64 ", not within %" PRIu64 " and %" PRIu64, d->layout->name,
                         field->name, *value, field->least, field->most);
        return false;
    }
    return true;
}

static bool decode_id(struct decoder *d, const struct pccl_wire_field *field, struct pccl_id *id)
{
    const uint8_t *bytes = take(d, field, sizeof *id);
    if (bytes == NULL)
        return false;
    memcpy(id, bytes, sizeof *id);
    return field->least == 0 || !pccl_id_is_zero(id) || fail(d, field, "is zero");
}

static bool decode_address(struct decoder *d, const struct pccl_wire_field *field, struct pccl_address *address)
{
    const uint8_t *bytes = take(d, field, ADDRESS_BYTES);
    if (bytes == NULL)
        return false;
    memcpy(address->ip, bytes, sizeof address->ip);
    address->port = (uint16_t)pccl_get(bytes + sizeof address->ip, 2);
    return true;
}

static bool decode_length(struct decoder *d, const struct pccl_wire_field *field, uint32_t *length)
{
    const uint8_t *bytes = take(d, field, 4);
    if (bytes == NULL)
        return false;
    *length = (uint32_t)pccl_get(bytes, 4);
    if (*length > field->cap) {
        pccl_text_format(d->reason, "%s.%s has length %u, at most %u is allowed", d->layout->name, field->name, *length,
                         field->cap);
        return false;
    }
    return true;
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

static bool decode_bytes(struct decoder *d, const struct pccl_wire_field *field, struct pccl_bytes *bytes)
{
    uint32_t length;
    if (!decode_length(d, field, &length))
        return false;
    bytes->data = take(d, field, length);
    bytes->length = length;
    if (bytes->data == NULL)
        return false;
    if (field->kind == PCCL_WIRE_TEXT && !is_printable(bytes->data, length))
        return fail(d, field, "is no printable text");
    return true;
}

static bool decode_list(struct decoder *d, const struct pccl_wire_field *field, void *object)
{
    const struct pccl_wire_layout *item = field->layout();
    uint32_t count;
    if (!decode_length(d, field, &count))
        return false;
    size_t start = (d->scratch_used + 15) / 16 * 16;
    PCCL_ASSERT(start + (size_t)count * item->size <=
                PCCL_WIRE_SCRATCH_BYTES); /* layout.c proves it for every message */
    uint8_t *items = d->scratch->bytes + start;
    d->scratch_used = start + (size_t)count * item->size;
    for (uint32_t i = 0; i < count; i++)
        if (!decode_object(d, item, items + (size_t)i * item->size))
            return false;
    const void *list = items;
    memcpy((uint8_t *)object + field->offset, &list, sizeof list);
    memcpy((uint8_t *)object + field->count_offset, &count, sizeof count);
    return true;
}

static bool decode_field(struct decoder *d, const struct pccl_wire_field *field, void *object)
{
    void *target = (uint8_t *)object + field->offset;
    uint64_t value;
    switch (field->kind) {
    case PCCL_WIRE_U8:
        if (!decode_integer(d, field, 1, &value))
            return false;
        *(uint8_t *)target = (uint8_t)value;
        return true;
    case PCCL_WIRE_U16:
        if (!decode_integer(d, field, 2, &value))
            return false;
        *(uint16_t *)target = (uint16_t)value;
        return true;
    case PCCL_WIRE_U32:
        if (!decode_integer(d, field, 4, &value))
            return false;
        *(uint32_t *)target = (uint32_t)value;
        return true;
    case PCCL_WIRE_U64: return decode_integer(d, field, 8, target);
    case PCCL_WIRE_ID:
    case PCCL_WIRE_SECRET: return decode_id(d, field, target);
    case PCCL_WIRE_ADDRESS: return decode_address(d, field, target);
    case PCCL_WIRE_BYTES:
    case PCCL_WIRE_TEXT: return decode_bytes(d, field, target);
    case PCCL_WIRE_STRUCT: return decode_object(d, field->layout(), target);
    case PCCL_WIRE_LIST: break;
    }
    return decode_list(d, field, object);
}

static bool decode_object(struct decoder *d, const struct pccl_wire_layout *layout, void *object)
{
    const struct pccl_wire_layout *outer = d->layout;
    d->layout = layout;
    memset(object, 0, layout->size); /* padding too, so that equal messages are equal bytes */
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

bool pccl_wire_peek_hello(const uint8_t *body, size_t length, uint32_t *version)
{
    if (length < 12 || pccl_get(body, 8) != PCCL_PROTOCOL_MAGIC)
        return false;
    *version = (uint32_t)pccl_get(body + 8, 4);
    return true;
}
