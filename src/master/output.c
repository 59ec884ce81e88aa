/* Requests ticks and writes log lines for all files of the master. */
#include "master/output.h"

#include <stdarg.h>

void pccl_master_arm(struct pccl_master *m, uint64_t when_us)
{
    m->deadline_us = pccl_min_u64(m->deadline_us, when_us);
}

void pccl_master_log(struct pccl_master *m, enum pccl_log_level level, const struct pccl_log_fields *fields,
                     const char *format, ...)
{
    struct pccl_text text, reason;
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(&text, format, arguments);
    va_end(arguments);
    pccl_names_add_to(&m->names, &text);
    struct pccl_log_fields all = fields != NULL ? *fields : (struct pccl_log_fields){0};
    if (all.reason != NULL) { /* with names like the message, which often contains it */
        pccl_text_format(&reason, "%s", all.reason);
        pccl_names_add_to(&m->names, &reason);
        all.reason = reason.bytes;
    }
    if (all.run == NULL && !pccl_id_is_zero(&m->lineage))
        all.run = &m->lineage;
    if (all.cause == PCCL_LOG_CAUSE_NONE && level >= PCCL_LOG_INFO && level < PCCL_LOG_ERROR)
        all.cause = PCCL_LOG_CAUSE_RUN;
    if (all.peer != NULL)
        all.name = pccl_names_of(&m->names, all.peer);
    m->effects.log(m->effects.context, level, text.bytes, &all);
}
