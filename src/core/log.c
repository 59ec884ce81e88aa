#include "core/log.h"

#include "core/text.h"

void pccl_log_line(const struct pccl_log_sink *sink, enum pccl_log_level level, const char *format, ...)
{
    struct pccl_text line;
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(&line, format, arguments);
    va_end(arguments);
    sink->log(sink->context, level, line.bytes);
}
