#include "wire/session.h"

#include "core/limits.h"
#include "wire/frame.h"

struct pccl_session_entry {
    struct pccl_session_entry *next; /* next newer one */
    uint64_t sequence;
    uint64_t mark;
    uint32_t length; /* length of the frame */
    uint8_t frame[];
};

static size_t bytes_of_entry(uint32_t frame_length) { return sizeof(struct pccl_session_entry) + frame_length; }

void pccl_session_init(struct pccl_session *session, const struct pccl_memory *memory)
{
    *session = (struct pccl_session){.memory = memory};
}

static void drop_oldest(struct pccl_session *session)
{
    struct pccl_session_entry *entry = session->oldest;
    session->oldest = entry->next;
    if (session->oldest == NULL)
        session->newest = NULL;
    session->queued_count--;
    session->queued_bytes -= entry->length;
    pccl_release(session->memory, entry, bytes_of_entry(entry->length));
}

void pccl_session_fini(struct pccl_session *session)
{
    while (session->oldest != NULL)
        drop_oldest(session);
}

void pccl_session_reset(struct pccl_session *session)
{
    pccl_session_fini(session);
    pccl_session_init(session, session->memory);
}

enum pccl_status pccl_session_push(struct pccl_session *session, const struct pccl_msg *msg, uint64_t mark,
                                   struct pccl_bytes *frame)
{
    size_t length = pccl_frame_size(msg);
    PCCL_ASSERT(length <= PCCL_FRAME_HEADER_BYTES + PCCL_FRAME_BODY_MAX);
    if (session->queued_count >= PCCL_SESSION_QUEUE_MAX || session->queued_bytes + length > PCCL_SESSION_BYTES_MAX)
        return PCCL_LIMIT;
    struct pccl_session_entry *entry = pccl_allocate(session->memory, bytes_of_entry((uint32_t)length));
    if (entry == NULL)
        return PCCL_MEMORY;
    entry->sequence = ++session->sent;
    entry->mark = mark;
    entry->length = (uint32_t)length;
    pccl_frame_encode(msg, entry->sequence, session->received, entry->frame);
    session->acked = session->received;

    if (session->newest != NULL)
        session->newest->next = entry;
    else
        session->oldest = entry;
    session->newest = entry;
    session->queued_count++;
    session->queued_bytes += length;
    *frame = (struct pccl_bytes){entry->frame, entry->length};
    return PCCL_OK;
}

bool pccl_session_accept(struct pccl_session *session, uint64_t sequence, bool *gap)
{
    *gap = sequence > session->received && sequence - session->received > 1;
    if (*gap || sequence <= session->received)
        return false;
    session->received = sequence;
    return true;
}

uint64_t pccl_session_acknowledge(struct pccl_session *session, uint64_t acknowledged, bool *invalid)
{
    uint64_t mark = 0;
    *invalid = acknowledged > session->sent;
    if (*invalid || acknowledged <= session->acknowledged)
        return 0; /* not an error: resent frames contain older acknowledgments */
    session->acknowledged = acknowledged;
    while (session->oldest != NULL && session->oldest->sequence <= acknowledged) {
        mark = pccl_max_u64(mark, session->oldest->mark);
        drop_oldest(session);
    }
    return mark;
}

const struct pccl_session_entry *pccl_session_unacknowledged(const struct pccl_session *session,
                                                             const struct pccl_session_entry *after,
                                                             struct pccl_bytes *frame)
{
    const struct pccl_session_entry *entry = after == NULL ? session->oldest : after->next;
    if (entry != NULL)
        *frame = (struct pccl_bytes){entry->frame, entry->length};
    return entry;
}

bool pccl_session_needs_acknowledgment(const struct pccl_session *session)
{
    return session->received - session->acked >= PCCL_SESSION_ACK_EVERY;
}

bool pccl_session_is_sound(const struct pccl_session *session)
{
    return session->acked <= session->received && session->sent - session->acknowledged == session->queued_count &&
           (session->oldest != NULL) == (session->queued_count > 0) &&
           (session->newest != NULL) == (session->queued_count > 0) &&
           (session->oldest == NULL || session->oldest->sequence == session->acknowledged + 1) &&
           (session->newest == NULL || session->newest->sequence == session->sent) &&
           session->queued_count <= PCCL_SESSION_QUEUE_MAX && session->queued_bytes <= PCCL_SESSION_BYTES_MAX;
}
