#include "os/terminal.h"

#include <stdatomic.h>
#include <uv.h>

enum { PATIENCE_MS = 20 };

/* Declared here, because the headers of Windows lack it. */
struct pipe_state {
    ULONG type, configuration, instances_max, instances, in_quota, readable, out_quota, writable, state, end;
};
struct io_status {
    void *status;
    ULONG_PTR information;
};
typedef LONG(NTAPI *query_file)(HANDLE file, struct io_status *status, void *result, ULONG length, int class);
enum { PIPE_STATE = 24 /* FilePipeLocalInformation */ };

static uv_once_t once = UV_ONCE_INIT;
static query_file query;

static void find_query(void)
{
    HMODULE system = GetModuleHandleA("ntdll.dll");
    FARPROC found = system ? GetProcAddress(system, "NtQueryInformationFile") : NULL;
    query = (query_file)(void (*)(void))found;
}

/* Returns the room in a pipe, or SIZE_MAX if this is not a pipe, or if its room is unknown. */
static size_t room_of(HANDLE file)
{
    struct io_status status;
    struct pipe_state pipe = {0};
    uv_once(&once, find_query);
    if (!query || GetFileType(file) != FILE_TYPE_PIPE || query(file, &status, &pipe, sizeof pipe, PIPE_STATE) < 0 ||
        pipe.out_quota == 0)
        return SIZE_MAX;
    return pipe.writable;
}

/* Waits until a write of this size does not block. */
static bool is_writable(HANDLE file, size_t length)
{
    static atomic_bool stuck; /* lines were dropped, so the next ones do not wait */
    int left_ms = atomic_load(&stuck) ? 0 : PATIENCE_MS;
    while (room_of(file) < length && left_ms > 0) {
        Sleep(1);
        left_ms--;
    }
    bool ready = room_of(file) >= length;
    atomic_store(&stuck, !ready);
    return ready;
}

void pccl_terminal_write_error(const char *bytes, size_t length)
{
    HANDLE file = GetStdHandle(STD_ERROR_HANDLE);
    DWORD written = 0;
    if (file == NULL || file == INVALID_HANDLE_VALUE || !is_writable(file, length))
        return;
    while (length > 0 && WriteFile(file, bytes, (DWORD)length, &written, NULL) && written > 0) {
        bytes += written;
        length -= written;
    }
}

struct timespec pccl_terminal_now(void)
{
    uv_timeval64_t now = {0};
    (void)uv_gettimeofday(&now);
    return (struct timespec){.tv_sec = (time_t)now.tv_sec, .tv_nsec = now.tv_usec * 1000};
}

bool pccl_terminal_utc(time_t time, struct tm *utc) { return gmtime_s(utc, &time) == 0; }
