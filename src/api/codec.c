/*
 * Codecs of the public API. The number that pcclCreateCodec returns encodes the whole codec, so there is no object to
 * free, share or look up. The encoding is private to this file.
 */
#include "api/api.h"
#include "os/cpu.h"
#include "kernels/codec_error.h"
#include "wire/choice.h"
#include "wire/packing.h"

#include <string.h>

/*
 * Bits of pcclQuantizationOptions_t.quantized_datatype for a scaled or an automatic codec; MADE makes the number larger
 * than any data type. For an automatic codec the upper bits contain the budget, and the top bit is set if the budget is
 * a share of the time.
 */
enum {
    AUTO = PCCL_PACKING_KINDS, /* known only to the API: descriptors contain the chosen codec */
    BUDGET_SHIFT = 14,
    BUDGET_MASK = PCCL_BUDGET_MS_MAX,
    SHARE_SHIFT = 31,
    FEEDBACK = 1 << 13,
    MADE = 1 << 12,
    BLOCK_SHIFT = 3,
    ROUNDING_SHIFT = 2,
    BLOCK_MASK = 0x1ff,
    ROUNDING_MASK = 1,
    SCALE_MASK = 3
};

bool pccl_api_codec_feeds_back(const pcclQuantizationOptions_t *codec)
{
    return (unsigned)codec->algorithm >= PCCL_PACKING_SCALED && ((unsigned)codec->quantized_datatype & FEEDBACK) != 0;
}

/*
 * Returns true for sums and averages, the only reductions in which the error of one operation can be added to the next.
 */
static bool can_feed_back(const struct pccl_descriptor *descriptor)
{
    return pccl_collective_reduces(descriptor->collective) &&
           pccl_reduce_op_adds((enum pccl_reduce_op)descriptor->operation);
}

static void take_scales(unsigned number, struct pccl_descriptor *descriptor)
{
    descriptor->codec_scale = number & SCALE_MASK;
    descriptor->codec_rounding = number >> ROUNDING_SHIFT & ROUNDING_MASK;
    descriptor->codec_block = number >> BLOCK_SHIFT & BLOCK_MASK;
}

/*
 * Stores the budget of an automatic codec in the descriptor. Block, scale and rounding apply only if the launch chooses
 * a level with scales.
 */
static enum pccl_status take_automatic(unsigned number, struct pccl_descriptor *descriptor, struct pccl_text *reason)
{
    const unsigned budget = number >> BUDGET_SHIFT & BUDGET_MASK;
    const bool is_share = number >> SHARE_SHIFT != 0;
    if ((number & MADE) == 0 || budget == 0 || (is_share && budget > PCCL_BUDGET_PERCENT_MAX))
        return pccl_fail(reason, PCCL_ARGUMENT, "invalid automatic codec: create it with pcclCreateCodec");
    const char *misfit = pccl_choice_misfit(descriptor);
    if (misfit)
        return pccl_fail(reason, PCCL_ARGUMENT, "%s", misfit);
    descriptor->budget_ms = is_share ? 0 : budget;
    descriptor->budget_percent = is_share ? (uint8_t)budget : 0;
    take_scales(number, descriptor);
    return PCCL_OK;
}

enum pccl_status pccl_api_codec(const pcclQuantizationOptions_t *codec, struct pccl_descriptor *descriptor,
                                struct pccl_text *reason)
{
    struct pccl_packing packing;
    const unsigned kind = (unsigned)codec->algorithm, number = (unsigned)codec->quantized_datatype;
    pccl_text_clear(reason);
    descriptor->codec_datatype = 0;
    if (kind == AUTO)
        return take_automatic(number, descriptor, reason);
    if (kind >= PCCL_PACKING_KINDS)
        return pccl_fail(reason, PCCL_ARGUMENT, "unknown quantization algorithm");
    descriptor->codec = (uint8_t)kind;
    if (kind == PCCL_CODEC_NONE)
        return PCCL_OK;
    if (kind < PCCL_PACKING_SCALED) {
        if (number > PCCL_F64) /* a data type number of PCCL 1.0 */
            return pccl_fail(reason, PCCL_ARGUMENT, "unknown quantized data type: %u", number);
        descriptor->codec_datatype = (uint8_t)number;
    } else {
        if ((number & MADE) == 0 || number >= 2 * FEEDBACK)
            return pccl_fail(reason, PCCL_ARGUMENT, "invalid scaled codec: create it with pcclCreateCodec");
        if ((number & FEEDBACK) != 0 && !can_feed_back(descriptor))
            return pccl_fail(reason, PCCL_ARGUMENT, "error feedback requires a sum or an average");
        take_scales(number, descriptor);
    }
    return pccl_packing_find(descriptor, (enum pccl_datatype)descriptor->datatype, &packing, reason) ? PCCL_OK
                                                                                                     : PCCL_ARGUMENT;
}

static bool is_budget_right(const pcclCodecParams_t *params, bool automatic, struct pccl_text *reason)
{
    const bool in_ms = params->budget_ms != 0, in_percent = params->budget_percent != 0;
    if (!automatic && (in_ms || in_percent))
        pccl_text_format(reason, "%s requires an automatic codec", in_ms ? "budget_ms" : "budget_percent");
    else if (automatic && !in_ms && !in_percent)
        pccl_text_format(reason, "an automatic codec needs budget_ms or budget_percent");
    else if (in_ms && in_percent)
        pccl_text_format(reason, "an automatic codec takes budget_ms or budget_percent, not both");
    else if (params->budget_ms > PCCL_BUDGET_MS_MAX)
        pccl_text_format(reason, "budget_ms is more than %u", (unsigned)PCCL_BUDGET_MS_MAX);
    else if (params->budget_percent > PCCL_BUDGET_PERCENT_MAX)
        pccl_text_format(reason, "budget_percent is more than %u", (unsigned)PCCL_BUDGET_PERCENT_MAX);
    else
        return true;
    return false;
}

static enum pccl_status create(const pcclCodecParams_t *given, pcclQuantizationOptions_t *codec,
                               struct pccl_text *reason)
{
    pcclCodecParams_t params;
    if (!given || !codec)
        return pccl_fail(reason, PCCL_ARGUMENT, "params or codec is NULL");
    enum pccl_status status = pccl_api_struct_read(given, &params, sizeof params, "PCCL_CODEC_PARAMS_INIT", reason);
    if (status != PCCL_OK)
        return status;
    const bool automatic = (unsigned)params.format == AUTO;
    const unsigned format = automatic ? PCCL_SCALED_E4M3 : (unsigned)params.format - PCCL_PACKING_SCALED;
    const struct pccl_scaled scaled = {.datatype = PCCL_F32,
                                       .format = (enum pccl_scaled_format)format,
                                       .scale = (enum pccl_scaled_scale)params.scale,
                                       .rounding = (enum pccl_scaled_rounding)params.rounding,
                                       .block = params.block};
    if (!pccl_scaled_is_valid(&scaled, reason))
        return PCCL_ARGUMENT;
    if (!is_budget_right(&params, automatic, reason))
        return PCCL_ARGUMENT;
    unsigned share = params.budget_percent != 0;
    unsigned number = share << SHARE_SHIFT | (params.budget_ms + params.budget_percent) << BUDGET_SHIFT |
                      (params.feedback ? FEEDBACK : 0) | MADE | params.block << BLOCK_SHIFT |
                      (unsigned)params.rounding << ROUNDING_SHIFT | params.scale;
    *codec = (pcclQuantizationOptions_t){(pcclDataType_t)number, params.format};
    return PCCL_OK;
}

pcclResult_t pcclCreateCodec(const pcclCodecParams_t *params, pcclQuantizationOptions_t *codec_out)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, create(params, codec_out, &call->why.reason));
}

/* Returns the square root of a nonnegative number, by Newton's method, starting above the root. */
static double root(double square)
{
    double above = square > 1 ? square : 1, next = (above + square / above) / 2;
    while (next < above) {
        above = next;
        next = (above + square / above) / 2;
    }
    return square > 0 ? above : 0;
}

static void measure(const struct pccl_packing *packing, enum pccl_datatype datatype, const void *elements, size_t count,
                    struct pccl_codec_error *error)
{
    const struct pccl_kernels *kernels = pccl_kernels_for(pccl_cpu_features());
    const size_t element_bytes = pccl_datatype_bytes(datatype);
    for (size_t first = 0, part; first < count; first += part) {
        uint8_t packed[PCCL_PACKING_BLOCK * sizeof(double)], unpacked[PCCL_PACKING_BLOCK * sizeof(double)];
        const uint8_t *from = (const uint8_t *)elements + first * element_bytes;
        part = count - first < PCCL_PACKING_BLOCK ? count - first : PCCL_PACKING_BLOCK;
        PCCL_ASSERT(pccl_packing_bytes(packing, part) <= sizeof packed);
        pccl_packing_encode(packing, kernels, from, part, first, 0, packed);
        pccl_packing_decode(packing, kernels, packed, part, unpacked);
        pccl_codec_error_add(error, datatype, from, unpacked, part);
    }
}

static enum pccl_status measure_for(const pcclQuantizationOptions_t *codec, const void *elements, size_t count,
                                    pcclDataType_t datatype, pcclCodecError_t *given, struct pccl_text *reason)
{
    struct pccl_descriptor descriptor = {.datatype = (uint8_t)datatype, .operation = PCCL_SUM};
    struct pccl_packing packing;
    struct pccl_codec_error error = {0};
    if (!codec || !elements || !given)
        return pccl_fail(reason, PCCL_ARGUMENT, "codec, elements or error is NULL");
    if (given->size < sizeof *given || given->size > PCCL_API_STRUCT_MAX)
        return pccl_fail(reason, PCCL_ARGUMENT,
                         "the size of the error is not set: initialize it with PCCL_CODEC_ERROR_INIT");
    if ((unsigned)datatype >= PCCL_DATATYPES)
        return pccl_fail(reason, PCCL_ARGUMENT, "unknown data type");
    enum pccl_status status = pccl_api_codec(codec, &descriptor, reason);
    if (status == PCCL_OK && pccl_choice_is_automatic(&descriptor))
        return pccl_fail(reason, PCCL_ARGUMENT,
                         "an automatic codec cannot be measured: each operation chooses its own");
    if (status != PCCL_OK || !pccl_packing_find(&descriptor, (enum pccl_datatype)datatype, &packing, reason))
        return PCCL_ARGUMENT;
    const bool packs = pccl_packing_packs(&packing);
    if (packs)
        measure(&packing, (enum pccl_datatype)datatype, elements, count, &error);
    const size_t size = given->size;
    memset(given, 0, size); /* includes the fields of later versions */
    *given = (pcclCodecError_t){
        .size = size,
        .largest = error.largest > 0 ? error.largest_error / error.largest : 0,
        .rms = error.squares > 0 ? root(error.squares_of_error / error.squares) : 0,
        .not_finite = error.not_finite,
        .packed_bytes =
            packs ? pccl_packing_bytes(&packing, count) : count * pccl_datatype_bytes((enum pccl_datatype)datatype),
    };
    return PCCL_OK;
}

pcclResult_t pcclMeasureCodec(const pcclQuantizationOptions_t *codec, const void *elements, size_t count,
                              pcclDataType_t datatype, pcclCodecError_t *error_out)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL,
                  measure_for(codec, elements, count, datatype, error_out, &call->why.reason));
}

/* ---- error feedback ---- */

static enum pccl_status get_feedback(struct pccl_api_call *call, uint64_t tag, float *feedback_out, size_t *count)
{
    uint64_t kept_count;
    if (!count)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclGetFeedback: count is NULL");
    pccl_comm_enter(call->comm);
    const float *kept = pccl_comm_feedback_kept(call->handle, tag, &kept_count);
    bool fits = !feedback_out || *count == kept_count;
    if (fits && feedback_out && kept)
        memcpy(feedback_out, kept, kept_count * sizeof *kept);
    pccl_comm_leave(call->comm);
    if (!fits)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT,
                         "pcclGetFeedback: tag %" PRIu64 " has %" PRIu64 " floats of error feedback, not %zu", tag,
                         kept_count, *count);
    *count = kept_count;
    return PCCL_OK;
}

pcclResult_t pcclGetFeedback(const pcclComm_t *comm, uint64_t tag, float *feedback_out, size_t *count)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, get_feedback(call, tag, feedback_out, count));
}

static enum pccl_status set_feedback(struct pccl_api_call *call, uint64_t tag, const float *feedback, size_t count)
{
    if (!feedback && count > 0)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclSetFeedback: feedback is NULL");
    pccl_comm_enter(call->comm);
    enum pccl_status status = pccl_comm_feedback_set(call->handle, tag, feedback, count, &call->why.reason);
    pccl_comm_leave(call->comm);
    return status;
}

pcclResult_t pcclSetFeedback(const pcclComm_t *comm, uint64_t tag, const float *feedback, size_t count)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, set_feedback(call, tag, feedback, count));
}
