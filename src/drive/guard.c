#include "drive/guard.h"

#include "log/logger.h"
#include "net/guard.h"

#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define DEVELOPMENT 1
#endif
#endif
#if !defined(DEVELOPMENT) && (!defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#define DEVELOPMENT 1
#endif

enum { WORDS_PATIENCE_MS = 1000 }; /* time limit for the callback to write the last line */

PCCL_NORETURN static void on_broken_invariant(const char *file, int line, const char *expression)
{
    pccl_logger_print(PCCL_LOG_ERROR, "library", "internal error: assertion failed: %s (%s:%d)", expression, file,
                      line);
#ifndef DEVELOPMENT
    pccl_guard_leave();
#endif
    pccl_logger_wait(WORDS_PATIENCE_MS);
    abort(); /* development build, or no guard is set */
}

void pccl_guard_install(void) { pccl_set_assert_handler(on_broken_invariant); }
