/*
 * PCCL: codecs of eight and of four bits, automatic ones, error feedback, and the sparse codec. pccl_collectives.h
 * includes this file, and so does pccl.h. None of this is in PCCL 1.0.
 */
#ifndef PCCL_CODECS_H
#define PCCL_CODECS_H

#include "pccl_collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------- codecs */

/* How the scale of a block travels. */
typedef enum pcclCodecScale_t {
    pcclScaleFloat = 0,
    pcclScaleBFloat16 = 1,
    pcclScalePowerOfTwo = 2 /* in one byte */
} pcclCodecScale_t;

typedef enum pcclCodecRounding_t {
    pcclRoundNearest = 0,
    /*
     * Up or down, each the more often the nearer it is: the mean of many roundings is the element. The choice follows
     * from the operation, the peer and the element's place; a retry chooses anew.
     */
    pcclRoundStochastic = 1
} pcclCodecRounding_t;

/* A codec of eight or four bits, or an automatic one, for elements of float, float16 and bfloat16. */
typedef struct pcclCodecParams_t {
    size_t size;                        /* set by PCCL_CODEC_PARAMS_INIT */
    pcclQuantizationAlgorithm_t format; /* pcclQuantE4M3, one that follows it, or pcclQuantAuto */
    uint32_t block;                     /* elements that have a scale of their own: 16, 32, 64, 128 or 256 */
    pcclCodecScale_t scale;
    pcclCodecRounding_t rounding;
    /*
     * Sums and averages: what packing takes from what this peer packs is kept for the tag, and added to its next
     * contribution with it; so over many operations nothing is lost. An operation that fails changes nothing. Local:
     * each peer keeps its own, or none. It takes 8 bytes for each element of each tag, until the handle is destroyed;
     * the option feedback_mib bounds it. If the tag is used for another count, type or codec, what was kept is dropped,
     * and a warning logged.
     */
    bool feedback;
    /* Of pcclQuantAuto, and only of it, one of these: how long an operation may take, up to 131071 ms. */
    uint32_t budget_ms;
    uint32_t budget_percent; /* or of the time between two uses of its tag, up to 100; the first two are exact */
} pcclCodecParams_t;

#define PCCL_CODEC_PARAMS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(pcclCodecParams_t), pcclQuantInt4, 256, pcclScaleFloat, pcclRoundNearest, false, 0, 0                   \
    }

/*
 * Makes a codec for any operation that takes a quantization, as often as wished, also in other threads: a plain value
 * that needs no release. Where peers differ in format, block, scale or rounding, the operation fails for all, as where
 * they differ in any quantization. With it the parts of a reduction go to one peer each, packed once, which adds them
 * as float and packs the result once (in groups without links between all, or of more than 16 peers, along the ring
 * instead, where each peer packs the sum anew). NaN arrives as NaN, an infinity as an infinity with pcclQuantE5M2 and
 * as NaN with the others. docs/CODECS.md has formats and bounds of the error.
 *
 * With pcclQuantAuto, for sums and averages in all-reduces and in reduce-scatters of equal shares, the library chooses
 * for each operation: floats travel as they are, or as 16 (pcclQuantZeroPointScale), 8 (pcclQuantE4M3) or 4 bits
 * (pcclQuantE2M1), whatever is the most that the last use of the tag lets expect to take no longer than the budget;
 * where nothing does, 4. All peers choose the same, and must give the same budget. Block, scale and rounding are those
 * of 8 and 4 bits; so is feedback, which waits while more bits travel. pcclOperationInfo_t tells what was chosen, and
 * why.
 * pcclSuccess
 * pcclInvalidArgument a pointer is NULL, the size is not set, there is no such codec, a budget of another format than
 *                     pcclQuantAuto, or both budgets
 */
PCCL_EXPORT pcclResult_t pcclCreateCodec(const pcclCodecParams_t *params, pcclQuantizationOptions_t *codec_out);

/* What coding costs. */
typedef struct pcclCodecError_t {
    size_t size;           /* set by PCCL_CODEC_ERROR_INIT */
    double largest;        /* the largest error, as a share of the largest magnitude */
    double rms;            /* the root of the mean square of the errors, as a share of that of the elements */
    uint64_t not_finite;   /* elements left out: they, or what they became, are NaN or infinite */
    uint64_t packed_bytes; /* how long the elements are when they travel */
} pcclCodecError_t;

#define PCCL_CODEC_ERROR_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(pcclCodecError_t), 0, 0, 0, 0                                                                           \
    }

/*
 * Packs and unpacks these elements, once and for nobody, with any quantization, and tells how far they come out from
 * what they were. An all-reduce with a codec of pcclCreateCodec adds the errors of its peers' parts, and its result's.
 * pcclSuccess
 * pcclInvalidArgument a pointer is NULL, the size is not set, or a quantization that does not fit
 */
PCCL_EXPORT pcclResult_t pcclMeasureCodec(const pcclQuantizationOptions_t *codec, const void *elements, size_t count,
                                          pcclDataType_t datatype, pcclCodecError_t *error_out);

/*
 * What error feedback keeps for a tag, for a checkpoint. *count: how many floats feedback_out takes; set to how many
 * are kept, 0 if none are. feedback_out may be NULL, to ask for that.
 * pcclSuccess
 * pcclInvalidArgument so many floats are not kept, or count is NULL
 */
PCCL_EXPORT pcclResult_t pcclGetFeedback(const pcclComm_t *comm, uint64_t tag, float *PCCL_NULLABLE feedback_out,
                                         size_t *count);
/*
 * Keeps these instead, for the next operation with the tag if it has as many elements; none if count is 0.
 * pcclSuccess
 * pcclInvalidArgument feedback is NULL
 * pcclInvalidUsage    an operation with the tag is not yet awaited
 * pcclInternalError   out of memory, or of what feedback_mib allows (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclSetFeedback(const pcclComm_t *comm, uint64_t tag, const float *PCCL_NULLABLE feedback,
                                         size_t count);

/* -------------------------------------------------------------------------------------------- sparse codec */

/*
 * The sparse codec keeps of each PCCL_SPARSE_CHUNK floats (`kept` of them; of fewer at the end as large a part, rounded
 * up) those of the largest magnitude: 14 bits each, which are its place and one of two magnitudes with a sign, and 8
 * bytes a chunk. The same elements are the same bytes, and these the same bits, on all machines. It is no codec of
 * operations: what one peer keeps another may not. Peers exchange the bytes (pcclAllGatherV), and each adds up those of
 * all. docs/CODECS.md has the layout.
 */
#define PCCL_SPARSE_CHUNK 4096

/*
 * How long `count` elements are when they are packed.
 * pcclSuccess
 * pcclInvalidArgument kept is not 1 to PCCL_SPARSE_CHUNK, or bytes_out is NULL
 */
PCCL_EXPORT pcclResult_t pcclGetSparseBytes(size_t count, uint32_t kept, size_t *bytes_out);
/*
 * Packs elements, which become what the bytes do not have: they, less what these decode to. That is error feedback, if
 * it is part of what is packed next time. bytes: as pcclGetSparseBytes says.
 * pcclSuccess
 * pcclInvalidArgument a pointer is NULL, a number does not fit, or an element is not finite: nothing was written
 */
PCCL_EXPORT pcclResult_t pcclPackSparse(float *elements, size_t count, uint32_t kept, void *packed, size_t bytes);
/*
 * Whether these bytes, of whoever sent them, are what the codec makes of so many elements. *square_out: the sum of the
 * squares of what they decode to.
 * pcclSuccess
 * pcclInvalidArgument they are not, a number does not fit, or a pointer is NULL
 */
PCCL_EXPORT pcclResult_t pcclCheckSparse(const void *packed, size_t bytes, size_t count, uint32_t kept,
                                         double *square_out);
/*
 * Adds factor times what the bytes decode to, to `count` sums.
 * pcclSuccess
 * pcclInvalidArgument as pcclCheckSparse: nothing was added
 */
PCCL_EXPORT pcclResult_t pcclAddSparse(const void *packed, size_t bytes, size_t count, uint32_t kept, float factor,
                                       float *sums);

#ifdef __cplusplus
}
#endif

#endif
