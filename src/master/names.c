/*
 * Display names, which the master reads from the hellos. Members receive a peer's name before any other message
 * mentions the peer, so that they can add it to reasons and logs; newcomers receive the names with their welcome.
 */
#include "master/output.h"
#include "master/roster.h"

#include <string.h>

void pccl_master_send_names(struct pccl_master *m, struct pccl_remote *to, const struct pccl_member *of, uint32_t count)
{
    uint32_t sent = 0, most = count < PCCL_NAMES_SENT_MAX ? count : PCCL_NAMES_SENT_MAX;
    struct pccl_named *names = pccl_allocate(&m->memory, pccl_max_u64(1, most) * sizeof *names);
    if (names == NULL)
        return; /* the receiver then shows only the ids */
    for (uint32_t i = 0; i < count && sent < most; i++) {
        const char *name = pccl_names_of(&m->names, &of[i].peer);
        if (name != NULL)
            names[sent++] = (struct pccl_named){.peer = of[i].peer, .name = pccl_bytes_of_string(name)};
    }
    struct pccl_msg msg = {.type = PCCL_MSG_names, .as.names = {.names = names, .names_count = sent}};
    if (sent > 0)
        pccl_master_send(m, to, &msg, 0);
    pccl_release(&m->memory, names, pccl_max_u64(1, most) * sizeof *names);
}
