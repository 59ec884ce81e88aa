/*
 * Framing: all other code sees whole messages only.
 *
 * The header has 32 bytes, little-endian, frozen for all versions:
 *   u32 body length | u16 message type | u16 zero | u64 sequence (0: not numbered) |
 *   u64 acknowledged | u32 checksum | u32 zero
 * The checksum is the low 32 bits of XXH3-64 over the first 24 bytes and the body.
 */
#ifndef PCCL_WIRE_FRAME_H
#define PCCL_WIRE_FRAME_H

#include "core/base.h"
#include "core/memory.h"
#include "core/status.h"
#include "wire/wire.h"

struct pccl_frame {
    uint16_t type;
    uint64_t sequence;
    uint64_t acknowledged;
    const uint8_t *body; /* a view into the reader's buffer, valid until its next call */
    uint32_t length;
};

/* Returns the size of the whole frame for this message, in bytes. */
size_t pccl_frame_size(const struct pccl_msg *msg);
/* Writes header and body: exactly pccl_frame_size(msg) bytes. */
void pccl_frame_encode(const struct pccl_msg *msg, uint64_t sequence, uint64_t acknowledged, uint8_t *bytes);

/*
 * Collects the bytes of one connection and returns frames. Its buffer never grows beyond one frame
 * of the permitted size.
 */
struct pccl_frame_reader {
    const struct pccl_memory *memory;
    uint8_t *buffer; /* owned */
    uint32_t capacity, start, end;
    uint32_t body_max; /* PCCL_FRAME_HELLO_MAX until raised */
};
void pccl_frame_reader_init(struct pccl_frame_reader *reader, const struct pccl_memory *memory);
void pccl_frame_reader_fini(struct pccl_frame_reader *reader);
/* Permits larger frames from now on, up to PCCL_FRAME_BODY_MAX; call it after an accepted hello. */
void pccl_frame_reader_raise(struct pccl_frame_reader *reader, uint32_t body_max);
/*
 * Returns room for read(), at least one byte, valid until the next call. Call it when next() has returned 0. Returns
 * NULL if memory is short. The buffer starts at a kilobyte and doubles as bytes arrive, whatever length a header
 * claims.
 */
uint8_t *pccl_frame_reader_space(struct pccl_frame_reader *reader, size_t *length);
/* Records that `length` bytes have been read into that room. */
void pccl_frame_reader_filled(struct pccl_frame_reader *reader, size_t length);
/*
 * Returns 1 with a frame; 0 if more bytes are needed; -1 with a reason if malformed (too long, bad checksum, non-zero
 * padding). All later calls then return -1, too: the connection is unusable.
 */
PCCL_MUST_CHECK int pccl_frame_reader_next(struct pccl_frame_reader *reader, struct pccl_frame *frame,
                                           struct pccl_text *reason);

#endif
