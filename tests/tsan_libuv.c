/*
 * Only in programs built with ThreadSanitizer. The system's libuv closes descriptors by a direct system call, which the
 * sanitizer does not see. If another thread then received the same number, the sanitizer would report a race with the
 * opening of the closed descriptor. A libuv that is built with the sanitizer handles this itself; here, `syscall` is
 * replaced. It reports the close as the end of the number's history and not as an access, because the sanitizer does
 * not see the atomic operations either that order libuv's closes.
 */
#include <dlfcn.h>
#include <sanitizer/linux_syscall_hooks.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef long system_call(long number, ...);

/* The sanitizer's, for which it has no header. */
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    system_call *const next = (system_call *)dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_close) {
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
        __sanitizer_syscall_pre_close(a[0]);
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    }
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
