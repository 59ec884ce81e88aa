#include "drive/comm_log.h"

#include "core/text.h"
#include "log/logger.h"
#include "net/heap.h"

#include <stdio.h>

struct pccl_log_line {
    struct pccl_log_line *next;
    enum pccl_log_level level;
    char text[PCCL_REASON_MAX + 1];
};

void pccl_comm_log_note(struct pccl_comm_log *log, enum pccl_log_level level, const char *text)
{
    if (!pccl_logger_wants(level))
        return;
    struct pccl_log_line *line = pccl_allocate(pccl_heap(), sizeof *line);
    if (!line)
        return;
    line->level = level;
    (void)snprintf(line->text, sizeof line->text, "%s", text);
    if (log->newest)
        log->newest->next = line;
    else
        log->oldest = line;
    log->newest = line;
}

void pccl_comm_log_write(const struct pccl_comm_log *log)
{
    for (struct pccl_log_line *line = log->oldest, *next; line; line = next) {
        next = line->next;
        pccl_logger_write_fields(line->level, "peer", line->text,
                                 &(struct pccl_log_fields){.cause = line->level == PCCL_LOG_INFO ? PCCL_LOG_CAUSE_PEER
                                                                    : line->level == PCCL_LOG_WARN
                                                                        ? PCCL_LOG_CAUSE_WARNING
                                                                        : PCCL_LOG_CAUSE_NONE});
        pccl_release(pccl_heap(), line, sizeof *line);
    }
}
