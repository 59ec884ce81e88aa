#include "peer/telemetry.h"
#include "peer/members.h"
#include "peer/output.h"
#include "peer/queries.h"
#include "wire/describe.h"

void pccl_peer_report_telemetry(struct pccl_peer *p, const struct pccl_msg_sight *telemetry)
{
    if (p->resuming || p->state != PCCL_PEER_MEMBER || !p->up || !p->greeted)
        return;
    struct pccl_msg msg = {.type = PCCL_MSG_sight, .as.sight = *telemetry};
    pccl_peer_send(p, &msg);
}

static bool is_among(const struct pccl_peer_verdict *verdicts, uint32_t count, uint64_t number)
{
    for (uint32_t i = 0; i < count; i++)
        if (verdicts[i].number == number)
            return true;
    return false;
}

static void take(struct pccl_peer *p, const struct pccl_verdict *received)
{
    struct pccl_peer_verdict *verdict = &p->verdicts[p->verdict_count++];
    *verdict =
        (struct pccl_peer_verdict){.number = received->number,
                                   .since_us = p->now_us - pccl_min_u64(p->now_us, received->for_ms * UINT64_C(1000)),
                                   .class = received->class,
                                   .peer = received->peer,
                                   .other = received->other};
    pccl_peer_take_reason(p, &verdict->evidence, &received->evidence);
    pccl_peer_take_reason(p, &verdict->action, &received->action);
}

static void log_verdict(struct pccl_peer *p, const struct pccl_peer_verdict *verdict)
{
    struct pccl_text words;
    pccl_text_clear(&words);
    pccl_describe_verdict(&words, verdict->class, &verdict->peer, &verdict->other, verdict->evidence.bytes);
    pccl_peer_log(p, PCCL_LOG_WARN, "verdict of the master: %s", words.bytes);
}

void pccl_peer_take_verdicts(struct pccl_peer *p, const struct pccl_msg_verdicts *verdicts)
{
    uint64_t known[PCCL_VERDICTS_MAX];
    uint32_t known_count = p->verdict_count;
    for (uint32_t i = 0; i < known_count; i++)
        known[i] = p->verdicts[i].number;
    p->verdict_count = 0;
    for (uint32_t i = 0; i < verdicts->verdicts_count; i++) {
        uint32_t k = 0;
        take(p, &verdicts->verdicts[i]);
        while (k < known_count && known[k] != verdicts->verdicts[i].number)
            k++;
        if (k == known_count)
            log_verdict(p, &p->verdicts[i]);
    }
    for (uint32_t k = 0; k < known_count; k++)
        if (!is_among(p->verdicts, p->verdict_count, known[k]))
            pccl_peer_log(p, PCCL_LOG_INFO, "a verdict of the master has been resolved; %u remain", p->verdict_count);
}

void pccl_peer_forget_verdicts(struct pccl_peer *p) { p->verdict_count = 0; }

const struct pccl_peer_verdict *pccl_peer_verdicts(const struct pccl_peer *p, uint32_t *count)
{
    *count = p->verdict_count;
    return p->verdicts;
}
