/*
 * Messages as structs, and the table-driven codec over schema.h. Decoding never allocates: bytes and texts are views
 * into the body, lists are stored in the scratch; both are valid until the handler returns. Integers travel
 * little-endian; BYTES, TEXT and LIST follow a u32 length.
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

struct pccl_bytes { /* a view: borrowed */
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

/* Memory for decoded lists. One per event loop; reset by every decode. */
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
 * Returns OK, or MALFORMED with the reason: unknown type, truncated, trailing bytes, a length over its cap, a text that
 * is not printable UTF-8/ASCII, a value that no sender of this version writes (enums, zero ids where one is required).
 * `body` must outlive *msg.
 */
PCCL_MUST_CHECK enum pccl_status pccl_wire_decode(uint16_t type, const uint8_t *body, size_t length,
                                                  struct pccl_wire_scratch *scratch, struct pccl_msg *msg,
                                                  struct pccl_text *reason);
const char *pccl_wire_name(uint16_t type); /* "hello"; "?" if unknown */

/* The schema as data, for the loops of the codec and for the documentation generator. */
enum pccl_wire_kind {
    PCCL_WIRE_U8,
    PCCL_WIRE_U16,
    PCCL_WIRE_U32,
    PCCL_WIRE_U64,
    PCCL_WIRE_ID,
    PCCL_WIRE_SECRET,  /* an id that is never printed */
    PCCL_WIRE_ADDRESS, /* up to here of constant size */
    PCCL_WIRE_BYTES,
    PCCL_WIRE_TEXT,
    PCCL_WIRE_STRUCT,
    PCCL_WIRE_LIST,
};
struct pccl_wire_layout;
struct pccl_wire_field {
    const char *name;
    enum pccl_wire_kind kind;
    uint32_t cap;                                   /* BYTES, TEXT: bytes; LIST: items */
    uint64_t least, most;                           /* integers: valid range; ID, SECRET: least 1 = not zero */
    size_t offset;                                  /* in the struct */
    size_t count_offset;                            /* LIST: of its count */
    const struct pccl_wire_layout *(*layout)(void); /* STRUCT and LIST: of the struct or of one item */
};
struct pccl_wire_layout {
    const char *name;
    const char *about; /* messages: sender and receiver; structs: NULL */
    uint16_t id;       /* messages; structs: 0 */
    uint32_t size;     /* of the C struct */
    uint32_t fixed;    /* bytes on the wire if constant; 0: depends on the content */
    uint32_t field_count;
    const struct pccl_wire_field *fields;
};
const struct pccl_wire_layout *pccl_wire_layout_of(uint16_t type);      /* NULL: unknown */
const struct pccl_wire_layout *pccl_wire_struct_layout(uint32_t index); /* 0, 1, ... NULL: no more */
const char *pccl_wire_kind_name(enum pccl_wire_kind kind);
/* Returns the first rule over several fields that a message with valid fields breaks, as a sentence; NULL: none. */
const char *pccl_wire_invalid(const struct pccl_msg *msg);
/* Does the same for a descriptor with valid fields. tiny: the operation is tiny. */
const char *pccl_wire_invalid_descriptor(const struct pccl_descriptor *descriptor, bool tiny);
/*
 * Returns OK if the other side can decode messages with this descriptor, or MALFORMED with the reason why it
 * cannot.
 */
PCCL_MUST_CHECK enum pccl_status pccl_wire_check_descriptor(const struct pccl_descriptor *descriptor, bool tiny,
                                                            struct pccl_text *reason);

/* ---- small helpers ---- */
int pccl_epoch_compare(const struct pccl_epoch *a, const struct pccl_epoch *b);
bool pccl_epoch_equal(const struct pccl_epoch *a, const struct pccl_epoch *b);
/* Returns true if this start view of an operation precedes the present one. Operations of subgroups have no view. */
bool pccl_view_is_past(const struct pccl_instance *instance, const struct pccl_epoch *view,
                       const struct pccl_epoch *present);
/* Returns the call that waits for rounds of this kind (enum pccl_round_kind). */
enum pccl_call pccl_call_of_round(uint8_t kind);
/* Returns true if the call ends an era (PROTOCOL 1.4), so that no other call runs beside it at a peer. */
static inline bool pccl_call_is_quiet(uint8_t call)
{
    return call == PCCL_CALL_UPDATE || call == PCCL_CALL_OPTIMIZE || call == PCCL_CALL_SYNC;
}
/* Returns true for an operation of the whole group: not of a subgroup or a pair, and not a founding. */
static inline bool pccl_is_of_whole_group(const struct pccl_instance *instance)
{
    return (instance->subgroup | instance->pair) == 0;
}
bool pccl_instance_equal(const struct pccl_instance *a, const struct pccl_instance *b);
uint64_t pccl_instance_hash(const struct pccl_hash_key *key, const struct pccl_instance *instance);
bool pccl_descriptor_equal(const struct pccl_descriptor *a, const struct pccl_descriptor *b);
/* Returns true if both have the same automatic codec, or neither has one. */
bool pccl_budget_equal(const struct pccl_descriptor *a, const struct pccl_descriptor *b);
bool pccl_label_equal(const struct pccl_label *a, const struct pccl_label *b);
/* Returns false if the text is too long or not printable. */
PCCL_MUST_CHECK bool pccl_label_of(const char *text, struct pccl_label *label);
struct pccl_bytes pccl_bytes_of_label(const struct pccl_label *label); /* without its padding */
bool pccl_digest_equal(const struct pccl_digest *a, const struct pccl_digest *b);
bool pccl_proof_equal(const struct pccl_proof *a, const struct pccl_proof *b);
bool pccl_proof_is_zero(const struct pccl_proof *proof);
struct pccl_bytes pccl_bytes_of_text(const struct pccl_text *text);
struct pccl_bytes pccl_bytes_of_string(const char *text);
struct pccl_bytes pccl_bytes_of_secret(const struct pccl_id *secret); /* as the authentication of a hello */

#endif
