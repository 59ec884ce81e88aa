/*
 * schema.h as data: one constant field table for each struct and message. Each table is inside a
 * function, so that the rows of the schema, which do not know their struct, can refer to it as
 * `here`.
 */
#include "wire/wire.h"

/* ---- sizes ---- */

/* The most bytes that a field takes on the wire. */
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

/* The most bytes that a decoded list, or a random text, takes in the scratch. */
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

/*
 * The bytes of a struct of constant size, which is one that needs no scratch; 0: the size depends
 * on the content.
 */
#define FIXED(most, scratch) ((scratch) == 0 ? (most) : 0)

/* ---- the tables ---- */

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

/* Lists may hold ids besides structs of the schema. They name peers, so none is zero. */
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

const struct pccl_wire_layout *pccl_wire_descriptor_layout(void) { return layout_descriptor(); }

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

/* ---- the bounds hold by construction ---- */

#define CHECK(id, name, about)                                                                                         \
    _Static_assert((id) > 0 && (id) < PCCL_MSG_TYPES_MAX, #name);                                                      \
    _Static_assert((size_t)MESSAGE_MOST_##name <= PCCL_FRAME_BODY_MAX, #name);                                         \
    _Static_assert((0 PCCL_FIELDS_##name(SCRATCH_FIELD)) <= PCCL_WIRE_SCRATCH_BYTES, #name);
PCCL_WIRE_MESSAGES(CHECK)
_Static_assert((size_t)MESSAGE_MOST_hello <= PCCL_FRAME_HELLO_MAX, "a hello must fit before it is accepted");
_Static_assert((size_t)MESSAGE_MOST_refused <= PCCL_FRAME_HELLO_MAX, "its refusal must fit");
_Static_assert((size_t)MESSAGE_MOST_hello_ok <= PCCL_FRAME_HELLO_MAX, "its answer must fit");
_Static_assert((size_t)MESSAGE_MOST_link_hello <= PCCL_FRAME_HELLO_MAX, "a hello must fit before it is accepted");
