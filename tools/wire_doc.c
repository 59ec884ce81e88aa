/* Prints docs/WIRE.md from the schema. `make wiredoc` writes the page, and a tidy test compares it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/limits.h"
#include "wire/digest.h"

static const char introduction[] =
    "# The wire\n"
    "\n"
    "This page is generated from `src/wire/schema.h` by `make wiredoc`; do not edit it. It describes\n"
    "protocol version %u: all messages between a peer and the master, and the control part of connections\n"
    "between peers. [PROTOCOL.md](PROTOCOL.md) explains the meaning and order of the messages, and the\n"
    "handshake of encrypted connections (17); the comments of the schema explain each field.\n"
    "\n"
    "## Frames\n"
    "\n"
    "Every message is sent in one frame: a header of %u bytes and a body. All integers are little-endian.\n"
    "\n"
    "| offset | kind | content |\n"
    "|---|---|---|\n"
    "| 0 | u32 | length of the body in bytes |\n"
    "| 4 | u16 | message type |\n"
    "| 6 | u16 | zero |\n"
    "| 8 | u64 | sequence number in this direction of the session; 0: not numbered |\n"
    "| 16 | u64 | highest sequence number received from the other side |\n"
    "| 24 | u32 | checksum: the low 32 bits of XXH3-64 over the first 24 bytes and the body |\n"
    "| 28 | u32 | zero |\n"
    "\n"
    "- A body has at most %u bytes before the hello of its connection is accepted and at most %u\n"
    "  after. A longer one, a wrong checksum or non-zero padding is malformed: the connection is closed;\n"
    "  at most a `refused` is sent first.\n"
    "- Message numbers begin at 1 and have no gaps. A message with a repeated number is dropped; a gap\n"
    "  closes the connection. After a reconnect to the same session each side resends the messages that\n"
    "  the other lacks.\n"
    "- A body is malformed when a field is missing, bytes follow the last one, a length exceeds its cap,\n"
    "  a value is outside its range, a required id is zero, or a text is not printable UTF-8. Each\n"
    "  message has exactly one encoding.\n"
    "- After a release, type numbers are not reused and fields are not reordered. Any change to a message raises\n"
    "  the protocol version.\n"
    "- All versions share the frame header, the numbers of `hello`, `hello_ok`, `refused` and `link_hello`, the\n"
    "  beginning of the greetings (`magic` of `hello` and `link_hello`, and `build`), and all of `refused`, so any\n"
    "  two builds can report why they do not connect. Before version 9 a greeting had only `magic` and the version\n"
    "  in that place.\n"
    "- The digest of this page's schema is `%s`. It is 64-bit FNV-1a over numbers of eight bytes\n"
    "  each, the lowest byte first. For each message, by its number: the number and its layout. For each enumeration,\n"
    "  in the order of this page: the number of values, and the values. A layout is the number of fields and, for\n"
    "  each field, its kind (0 to 10: u8, u16, u32, u64, id, secret, address, bytes, text, struct, list), its cap (of\n"
    "  bytes, text and lists, else 0), its least and its greatest valid value (of other kinds than integers 0, or 1\n"
    "  if it must not be zero, and 2^64 - 1), and the layout of its struct or of one item. The layout of an item that "
    "is\n"
    "  an id has one field, which is not zero; the layout of an item that is an address has one address. The digest "
    "itself\n"
    "  counts as a field without a range.\n"
    "\n"
    "## Kinds of fields\n"
    "\n"
    "| kind | on the wire |\n"
    "|---|---|\n"
    "| u8 u16 u32 u64 | 1, 2, 4, 8 bytes |\n"
    "| id | 16 bytes: a peer or a lineage |\n"
    "| secret | 16 bytes, never shown in logs |\n"
    "| address | 16 bytes of IPv6 address (IPv4 as `::ffff:a.b.c.d`) and a u16 port |\n"
    "| bytes | u32 length, then the bytes |\n"
    "| text | u32 length, then printable UTF-8 without a terminator: no control characters, line separators or "
    "invisible characters such as direction marks |\n"
    "| list | u32 number of items, then the items |\n"
    "| a struct | its fields |\n"
    "\n";

static void print_kind(const struct pccl_wire_field *field)
{
    switch (field->kind) {
    case PCCL_WIRE_STRUCT: printf("[%s](#%s)", field->layout()->name, field->layout()->name); break;
    case PCCL_WIRE_LIST: {
        const struct pccl_wire_layout *item = field->layout();
        bool own_section = strcmp(item->name, "id") != 0 && strcmp(item->name, "address") != 0;
        printf(own_section ? "list of [%s](#%s)" : "list of %s", item->name, item->name);
        break;
    }
    default: printf("%s", pccl_wire_kind_name(field->kind));
    }
}

static uint64_t greatest_of(enum pccl_wire_kind kind)
{
    switch (kind) {
    case PCCL_WIRE_U8: return UINT8_MAX;
    case PCCL_WIRE_U16: return UINT16_MAX;
    case PCCL_WIRE_U32: return UINT32_MAX;
    default: return UINT64_MAX;
    }
}

static void print_limits(const struct pccl_wire_field *field)
{
    switch (field->kind) {
    case PCCL_WIRE_U8:
    case PCCL_WIRE_U16:
    case PCCL_WIRE_U32:
    case PCCL_WIRE_U64:
        if (field->least == field->most)
            printf(field->least > UINT32_MAX ? "0x%" PRIx64 : "%" PRIu64, field->least);
        else if (field->least > 0 || field->most < greatest_of(field->kind))
            printf("%" PRIu64 " to %" PRIu64, field->least, field->most);
        break;
    case PCCL_WIRE_ID:
    case PCCL_WIRE_SECRET: printf("%s", field->least > 0 ? "not zero" : ""); break;
    case PCCL_WIRE_BYTES:
    case PCCL_WIRE_TEXT: printf("at most %" PRIu32 " bytes", field->cap); break;
    case PCCL_WIRE_LIST: printf("at most %" PRIu32 " items", field->cap); break;
    case PCCL_WIRE_ADDRESS:
    case PCCL_WIRE_STRUCT: break;
    }
}

/* Returns true for the field that contains the schema's digest, because that digest cannot cover itself. */
static bool is_own_digest(const struct pccl_wire_layout *layout, const struct pccl_wire_field *field)
{
    return strcmp(layout->name, "build") == 0 && strcmp(field->name, "digest") == 0;
}

static void print_fields(const struct pccl_wire_layout *layout)
{
    printf("\n| field | kind | valid |\n|---|---|---|\n");
    for (uint32_t i = 0; i < layout->field_count; i++) {
        printf("| %s | ", layout->fields[i].name);
        print_kind(&layout->fields[i]);
        printf(" | ");
        if (is_own_digest(layout, &layout->fields[i]))
            printf("0x%016" PRIx64, pccl_wire_digest());
        else
            print_limits(&layout->fields[i]);
        printf(" |\n");
    }
    printf("\n");
}

static void print_enumerations(void)
{
#define VALUE(name, value, words) printf("| %d | %s | %s |\n", value, #name, words);
#define ENUMERATION(name, where)                                                                                       \
    printf("### %s\n\n%s.\n\n| value | name | meaning |\n|---|---|---|\n", #name, where);                              \
    PCCL_ENUM_##name(VALUE) printf("\n");
    PCCL_WIRE_ENUMS(ENUMERATION)
}

int main(void)
{
    char digest[20];
    (void)snprintf(digest, sizeof digest, "0x%016" PRIx64, pccl_wire_digest());
    printf(introduction, PCCL_PROTOCOL_VERSION, (unsigned)PCCL_FRAME_HEADER_BYTES, (unsigned)PCCL_FRAME_HELLO_MAX,
           (unsigned)PCCL_FRAME_BODY_MAX, digest);
    printf("## Structs\n\n");
    const struct pccl_wire_layout *layout;
    for (uint32_t i = 0; (layout = pccl_wire_struct_layout(i)) != NULL; i++) {
        printf("### %s\n", layout->name);
        print_fields(layout);
    }
    printf("## Messages\n\n");
    for (uint16_t type = 0; type < PCCL_MSG_TYPES_MAX; type++) {
        layout = pccl_wire_layout_of(type);
        if (layout == NULL)
            continue;
        printf("### %u %s\n\n%s.\n", (unsigned)type, layout->name, layout->about);
        print_fields(layout);
    }
    printf("## Enumerations\n\n");
    print_enumerations();
    printf("The datatypes, reductions and codecs of [descriptor](#descriptor) are the values of `pcclDataType_t`, "
           "`pcclRedOp_t` and\n"
           "`pcclQuantizationAlgorithm_t` in `include/pccl.h`, and `pcclCodecScale_t` and `pcclCodecRounding_t` in\n"
           "`include/pccl_codecs.h`.\n");
    return 0;
}
