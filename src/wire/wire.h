/*
 * Messages as structs, and the table-driven codec for schema.h. Decoding never allocates: bytes and texts are views of
 * the body, and lists are stored in the scratch. Both are valid until the handler returns. Integers are sent in
 * little-endian order; BYTES, TEXT and LIST are preceded by a u32 length.
 */
#ifndef PCCL_WIRE_WIRE_H
#define PCCL_WIRE_WIRE_H

#include "core/address.h"
#include "core/base.h"
#include "core/id.h"
#include "core/prng.h"
#include "core/status.h"
#include "core/text.h"
#include "wire/collectives.h"
#include "wire/schema.h"

struct pccl_bytes { /* a view of borrowed memory */
    const uint8_t *data;
    uint32_t length;
};

/* ---- structs from the schema ---- */
#define PCCL_DECLARE_U8(name, type) uint8_t name;
#define PCCL_DECLARE_U16(name, type) uint16_t name;
#define PCCL_DECLARE_U32(name, type) uint32_t name;
#define PCCL_DECLARE_U64(name, type) uint64_t name;
#define PCCL_DECLARE_ID(name, type) struct pccl_id name;
#define PCCL_DECLARE_SECRET(name, type) struct pccl_id name;
#define PCCL_DECLARE_ADDRESS(name, type) struct pccl_address name;
#define PCCL_DECLARE_BYTES(name, type) struct pccl_bytes name;
#define PCCL_DECLARE_TEXT(name, type) struct pccl_bytes name;
#define PCCL_DECLARE_STRUCT(name, type) struct pccl_##type name;
#define PCCL_DECLARE_LIST(name, type)                                                                                  \
    const struct pccl_##type *name;                                                                                    \
    uint32_t name##_count;
#define PCCL_DECLARE_FIELD(kind, name, type, cap) PCCL_DECLARE_##kind(name, type)

#define PCCL_DECLARE_WIRE_STRUCT(name)                                                                                 \
    struct pccl_##name {                                                                                               \
        PCCL_FIELDS_##name(PCCL_DECLARE_FIELD)                                                                         \
    };
PCCL_WIRE_STRUCTS(PCCL_DECLARE_WIRE_STRUCT)

#define PCCL_DECLARE_MESSAGE(id, name, about)                                                                          \
    struct pccl_msg_##name {                                                                                           \
        PCCL_FIELDS_##name(PCCL_DECLARE_FIELD)                                                                         \
    };
PCCL_WIRE_MESSAGES(PCCL_DECLARE_MESSAGE)

enum pccl_msg_type {
#define PCCL_MESSAGE_ENUM(id, name, about) PCCL_MSG_##name = id,
    PCCL_WIRE_MESSAGES(PCCL_MESSAGE_ENUM)
#undef PCCL_MESSAGE_ENUM
        PCCL_MSG_TYPES_MAX = 128
};

struct pccl_msg {
    uint16_t type; /* enum pccl_msg_type */
    union {
#define PCCL_MESSAGE_MEMBER(id, name, about) struct pccl_msg_##name name;
        PCCL_WIRE_MESSAGES(PCCL_MESSAGE_MEMBER)
#undef PCCL_MESSAGE_MEMBER
    } as;
};

/* Memory for decoded lists. Each event loop has one scratch, which each decode overwrites. */
enum { PCCL_WIRE_SCRATCH_BYTES = 512 << 10 };
struct pccl_wire_scratch {
    _Alignas(16) uint8_t bytes[PCCL_WIRE_SCRATCH_BYTES];
};

/* ---- the codec ---- */

/* Returns the size of the body in bytes. The message must be valid. */
size_t pccl_wire_size(const struct pccl_msg *msg);
/* Writes exactly pccl_wire_size(msg) bytes and returns their number. */
size_t pccl_wire_encode(const struct pccl_msg *msg, uint8_t *body);
/*
 * Decodes a body. Returns MALFORMED with a reason if the type is unknown, the body is truncated or too long, a length
 * exceeds its cap, a text is not printable UTF-8, or a value cannot come from a sender of this version (unknown enum
 * values, zero ids where one is required). `body` must outlive *msg.
 */
PCCL_MUST_CHECK enum pccl_status pccl_wire_decode(uint16_t type, const uint8_t *body, size_t length,
                                                  struct pccl_wire_scratch *scratch, struct pccl_msg *msg,
                                                  struct pccl_text *reason);
const char *pccl_wire_name(uint16_t type); /* "hello"; "?" if unknown */

/* The schema as data, for the loops of the codec and for generating documentation. */
enum pccl_wire_kind {
    PCCL_WIRE_U8,
    PCCL_WIRE_U16,
    PCCL_WIRE_U32,
    PCCL_WIRE_U64,
    PCCL_WIRE_ID,
    PCCL_WIRE_SECRET,  /* an id that is never printed */
    PCCL_WIRE_ADDRESS, /* the last kind of constant size */
    PCCL_WIRE_BYTES,
    PCCL_WIRE_TEXT,
    PCCL_WIRE_STRUCT,
    PCCL_WIRE_LIST,
};
struct pccl_wire_layout;
struct pccl_wire_field {
    const char *name;
    enum pccl_wire_kind kind;
    uint32_t cap;         /* maximum: bytes for BYTES and TEXT, items for LIST */
    uint64_t least, most; /* valid range of integers; for ID and SECRET, 1 means that zero is invalid */
    size_t offset;        /* offset in the struct */
    size_t count_offset;  /* LIST: offset of the item count */
    const struct pccl_wire_layout *(*layout)(void); /* STRUCT, LIST: layout of the struct or of an item */
};
struct pccl_wire_layout {
    const char *name;
    const char *about; /* sender and receiver of a message; NULL for structs */
    uint16_t id;       /* id of a message; 0 for structs */
    uint32_t size;     /* size of the C struct */
    uint32_t fixed;    /* encoded size in bytes if it is constant, otherwise 0 */
    uint32_t field_count;
    const struct pccl_wire_field *fields;
};
const struct pccl_wire_layout *pccl_wire_layout_of(uint16_t type);      /* NULL if the type is unknown */
const struct pccl_wire_layout *pccl_wire_struct_layout(uint32_t index); /* index: from 0; NULL after the last one */
const char *pccl_wire_kind_name(enum pccl_wire_kind kind);
/*
 * Checks the rules that involve several fields of a message. Each field must already be valid by itself. Returns the
 * first broken rule, as a sentence, or NULL.
 */
const char *pccl_wire_invalid(const struct pccl_msg *msg);
/* Checks the same rules for a descriptor. tiny: the operation is tiny. */
const char *pccl_wire_invalid_descriptor(const struct pccl_descriptor *descriptor, bool tiny);
/* Returns OK if the other side can decode messages with this descriptor, otherwise MALFORMED with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_wire_check_descriptor(const struct pccl_descriptor *descriptor, bool tiny,
                                                            struct pccl_text *reason);

/* ---- small helpers ---- */
int pccl_epoch_compare(const struct pccl_epoch *a, const struct pccl_epoch *b);
bool pccl_epoch_equal(const struct pccl_epoch *a, const struct pccl_epoch *b);
/*
 * Returns true if an operation's start view precedes the current one. Always false for subgroups, which have no views.
 */
bool pccl_view_is_past(const struct pccl_instance *instance, const struct pccl_epoch *view,
                       const struct pccl_epoch *present);
/* Returns the call that waits for rounds of this kind (enum pccl_round_kind). */
enum pccl_call pccl_call_of_round(uint8_t kind);
/* Returns true if the call ends an era (PROTOCOL 1.4), in which case no other call of the peer may run concurrently. */
static inline bool pccl_call_is_quiet(uint8_t call)
{
    return call == PCCL_CALL_UPDATE || call == PCCL_CALL_OPTIMIZE || call == PCCL_CALL_SYNC;
}
/* Returns true for an operation of the whole group, as opposed to a subgroup, a pair or a founding. */
static inline bool pccl_is_of_whole_group(const struct pccl_instance *instance)
{
    return (instance->subgroup | instance->pair) == 0;
}
bool pccl_instance_equal(const struct pccl_instance *a, const struct pccl_instance *b);
uint64_t pccl_instance_hash(const struct pccl_hash_key *key, const struct pccl_instance *instance);
bool pccl_descriptor_equal(const struct pccl_descriptor *a, const struct pccl_descriptor *b);
/* Returns true if both have the same automatic codec, or both have none. */
bool pccl_budget_equal(const struct pccl_descriptor *a, const struct pccl_descriptor *b);
bool pccl_label_equal(const struct pccl_label *a, const struct pccl_label *b);
/* Converts a label. Returns false if the text is too long or not printable. */
PCCL_MUST_CHECK bool pccl_label_of(const char *text, struct pccl_label *label);
struct pccl_bytes pccl_bytes_of_label(const struct pccl_label *label); /* without its padding */
bool pccl_digest_equal(const struct pccl_digest *a, const struct pccl_digest *b);
bool pccl_proof_equal(const struct pccl_proof *a, const struct pccl_proof *b);
bool pccl_proof_is_zero(const struct pccl_proof *proof);
struct pccl_bytes pccl_bytes_of_text(const struct pccl_text *text);
struct pccl_bytes pccl_bytes_of_string(const char *text);
/* in the form in which a hello contains it */
struct pccl_bytes pccl_bytes_of_secret(const struct pccl_id *secret);

#endif
