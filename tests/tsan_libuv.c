/*
 * Only in programs built with ThreadSanitizer. The system's libuv closes descriptors by a system call of its own, which
 * the sanitizer does not see: whoever gets the same number next, on another thread, would look like a race with the
 * opening of the closed one. libuv has this remedy itself, when it is built with the sanitizer; here `syscall` stands
 * in front of it. The close is told as the end of the number's history, not as one more access: what libuv orders its
 * closes by, its atomics, the sanitizer does not see either.
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
