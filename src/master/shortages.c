/* Stores the shortages of peers, to explain failures. */
#include "master/shortages.h"
#include "master/output.h"

enum { LOG_AGAIN_US = 60000000 };

void pccl_master_describe_shortage(const struct pccl_remote *remote, struct pccl_text *words)
{
    pccl_text_append(words, "peer %s cannot take part: %s", pccl_id_str(&remote->id), remote->lack.bytes);
}

void pccl_master_note_shortage(struct pccl_master *m, struct pccl_remote *from, struct pccl_bytes reason)
{
    struct pccl_text words;
    bool is_known = from->lack_us != 0 && m->now_us < from->lack_logged_us + LOG_AGAIN_US;
    pccl_text_clear(&from->lack);
    pccl_text_add_bytes(&from->lack, (const char *)reason.data, reason.length);
    from->lack_us = m->now_us;
    if (is_known)
        return;
    from->lack_logged_us = m->now_us;
    pccl_text_clear(&words);
    pccl_master_describe_shortage(from, &words);
    pccl_master_log(
        m, PCCL_LOG_WARN,
        &(struct pccl_log_fields){.peer = &from->id, .reason = from->lack.bytes, .event = PCCL_EVENT_SHORTAGE}, "%s",
        words.bytes);
}

bool pccl_master_reported_shortage_since(const struct pccl_remote *remote, uint64_t since_us)
{
    return remote->lack_us != 0 && remote->lack_us >= since_us;
}

void pccl_master_note_ability(struct pccl_master *m, struct pccl_remote *from, uint8_t kind, struct pccl_bytes unable)
{
    from->unable[kind] = unable.length > 0;
    if (from->unable[kind])
        pccl_master_note_shortage(m, from, unable);
}

bool pccl_master_some_are_unable(const struct pccl_peer_group *group, uint8_t kind, struct pccl_text *words)
{
    uint32_t count = 0;
    pccl_text_clear(words);
    for (uint32_t i = 0; i < group->ring_count; i++)
        if (group->ring[i]->unable[kind] && count++ == 0)
            pccl_master_describe_shortage(group->ring[i], words);
    if (count > 1)
        pccl_text_append(words, " (and %u more)", count - 1);
    return count > 0;
}
