/* Prints a message as one line for logs. Secrets are not shown, and bytes are only counted. */
#include "support/wire_print.h"

#include <string.h>

enum { ITEMS_SHOWN = 8 };

static void print_object(const struct pccl_wire_layout *layout, const void *object, struct pccl_text *text);

static void print_list(const struct pccl_wire_field *field, const void *object, struct pccl_text *text)
{
    const struct pccl_wire_layout *item = field->layout();
    const uint8_t *items;
    uint32_t count;
    memcpy(&items, (const uint8_t *)object + field->offset, sizeof items);
    memcpy(&count, (const uint8_t *)object + field->count_offset, sizeof count);
    pccl_text_append(text, "%s[%u]{", field->name, count);
    for (uint32_t i = 0; i < count && i < ITEMS_SHOWN; i++) {
        if (i > 0)
            pccl_text_add(text, " ");
        print_object(item, items + (size_t)i * item->size, text);
    }
    pccl_text_add(text, count > ITEMS_SHOWN ? " ...}" : "}");
}

static void print_field(const struct pccl_wire_field *field, const void *object, struct pccl_text *text)
{
    const void *value = (const uint8_t *)object + field->offset;
    if (field->kind != PCCL_WIRE_STRUCT && field->kind != PCCL_WIRE_LIST)
        pccl_text_append(text, "%s=", field->name);
    switch (field->kind) {
    case PCCL_WIRE_U8: pccl_text_add_u64(text, *(const uint8_t *)value); break;
    case PCCL_WIRE_U16: pccl_text_add_u64(text, *(const uint16_t *)value); break;
    case PCCL_WIRE_U32: pccl_text_add_u64(text, *(const uint32_t *)value); break;
    case PCCL_WIRE_U64: pccl_text_add_u64(text, *(const uint64_t *)value); break;
    case PCCL_WIRE_ID: pccl_text_add(text, pccl_id_str(value)); break;
    case PCCL_WIRE_SECRET: pccl_text_add(text, "*"); break;
    case PCCL_WIRE_ADDRESS: pccl_text_add(text, pccl_address_str(value)); break;
    case PCCL_WIRE_BYTES: pccl_text_append(text, "%u bytes", ((const struct pccl_bytes *)value)->length); break;
    case PCCL_WIRE_TEXT: {
        const struct pccl_bytes *words = value;
        pccl_text_add(text, "\"");
        pccl_text_add_bytes(text, (const char *)words->data, words->length);
        pccl_text_add(text, "\"");
        break;
    }
    case PCCL_WIRE_STRUCT:
        pccl_text_append(text, "%s{", field->name);
        print_object(field->layout(), value, text);
        pccl_text_add(text, "}");
        break;
    case PCCL_WIRE_LIST: print_list(field, object, text); break;
    }
}

static void print_object(const struct pccl_wire_layout *layout, const void *object, struct pccl_text *text)
{
    for (uint32_t i = 0; i < layout->field_count; i++) {
        if (i > 0)
            pccl_text_add(text, " ");
        print_field(&layout->fields[i], object, text);
    }
}

void pccl_wire_print(const struct pccl_msg *msg, struct pccl_text *text)
{
    const struct pccl_wire_layout *layout = pccl_wire_layout_of(msg->type);
    pccl_text_clear(text);
    if (layout == NULL) {
        pccl_text_add(text, "?{}");
        return;
    }
    pccl_text_append(text, "%s{", layout->name);
    print_object(layout, &msg->as, text);
    pccl_text_add(text, "}");
}
