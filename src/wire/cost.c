#include "wire/cost.h"

enum { RTT_US_LEAST = 50 }; /* shorter round trips count as equal: they only reflect the scheduling of threads */

static bool differ(uint64_t a, uint64_t b) { return pccl_max_u64(a, b) >= 2 * pccl_min_u64(a, b); }

bool pccl_rtt_moved(uint32_t was_us, uint32_t now_us)
{
    return now_us != 0 &&
           (was_us == 0 || differ(pccl_max_u64(was_us, RTT_US_LEAST), pccl_max_u64(now_us, RTT_US_LEAST)));
}

bool pccl_rate_moved(uint64_t was, uint64_t now)
{
    return now != 0 && (was == 0 || differ(pccl_min_u64(was, PCCL_RATE_MOST), pccl_min_u64(now, PCCL_RATE_MOST)));
}

const char *pccl_rate_text(uint64_t rate, struct pccl_text *text)
{
    pccl_text_format(text, "%" PRIu64 " bytes/s%s", pccl_min_u64(rate, PCCL_RATE_MOST),
                     rate >= PCCL_RATE_MOST ? " or more" : "");
    return text->bytes;
}
