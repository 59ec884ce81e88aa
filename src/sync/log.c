/* Log lines of a session, for all files of this folder. */
#include "sync/internal.h"

void pccl_sync_log(const struct pccl_sync_session *session, enum pccl_log_level level, const char *format, ...)
{
    struct pccl_text line;
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(&line, format, arguments);
    va_end(arguments);
    session->events.log(session->events.context, level, line.bytes);
}
