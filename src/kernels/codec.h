/*
 * Codecs pack elements into fewer bytes for transfer. Independent of schedules, a codec converts `count` elements to
 * exactly pccl_codec_bytes(codec, count) bytes and back. Each block of PCCL_CODEC_BLOCK elements has scales, which are
 * part of these bytes. All machines and all kernels compute the same bytes from the same elements, and the same bits
 * from the same bytes. docs/CODECS.md has the formulas, the layout and the error bounds. Pure.
 *
 * To add a codec, add a row to the table behind pccl_codec_find, and the code for a block. If it packs elements into
 * less than a byte, packed_bytes (codec_internal.h) must count bits.
 */
#ifndef PCCL_KERNELS_CODEC_H
#define PCCL_KERNELS_CODEC_H

#include "core/text.h"
#include "kernels/kernels.h"

enum { PCCL_CODEC_BLOCK = 1024 };

/* Values of pcclQuantizationAlgorithm_t. */
enum pccl_codec_kind { PCCL_CODEC_NONE, PCCL_CODEC_MIN_MAX, PCCL_CODEC_ZERO_POINT_SCALE, PCCL_CODEC_KINDS };

struct pccl_codec; /* constant; one codec for a type of elements and a width of packed values */

const char *pccl_codec_kind_name(enum pccl_codec_kind kind); /* "none", "minmax", "zeropointscale" */

/*
 * Returns the codec for elements of `datatype`, packed as `packed`, in a reduction. Returns NULL
 *   with a reason  if this is unsupported or invalid: an unknown value, integers as elements, floats as the
 *                  packed type, signed integers under MinMax, PROD, MAX or MIN under ZeroPointScale.
 *   without one    if elements are sent unpacked: PCCL_CODEC_NONE; packed == datatype (whatever the other
 *                  arguments); or a supported packed type that is not narrower than the element, which
 *                  would cost bytes and lose digits.
 */
const struct pccl_codec *pccl_codec_find(enum pccl_codec_kind kind, enum pccl_datatype datatype,
                                         enum pccl_datatype packed, enum pccl_reduce_op reduction,
                                         struct pccl_text *reason);
/*
 * Returns the size of `count` packed elements with their scales in bytes, 0 for 0. Additive over whole blocks: elements
 * that begin at a multiple of PCCL_CODEC_BLOCK are stored at pccl_codec_bytes of that multiple, and can be decoded
 * separately.
 */
size_t pccl_codec_bytes(const struct pccl_codec *codec, size_t count);
/*
 * Encodes elements. The pointers need no alignment, and the memory must not overlap. NaN decodes to NaN, and an
 * infinity to the same infinity, without affecting other elements.
 */
void pccl_codec_encode(const struct pccl_codec *codec, const struct pccl_kernels *kernels, const void *elements,
                       size_t count, uint8_t *bytes);
/*
 * Decodes bytes. Bytes from the network are not trusted, so any bytes are accepted: a block with an invalid head
 * decodes to NaN.
 */
void pccl_codec_decode(const struct pccl_codec *codec, const struct pccl_kernels *kernels, const uint8_t *bytes,
                       size_t count, void *elements);
/* Does the same for elements that will not be read soon, and writes them like pccl_copy_streaming. */
void pccl_codec_decode_streaming(const struct pccl_codec *codec, const struct pccl_kernels *kernels,
                                 const uint8_t *bytes, size_t count, void *elements);

#endif
