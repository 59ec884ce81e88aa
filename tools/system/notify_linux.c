#include "notify.h"

#include "log/logger.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { STATUS_MS = 1000 };

static bool parse_address(const char *text, struct notify *notify)
{
    size_t length = strlen(text);
    if ((text[0] != '/' && text[0] != '@') || length < 2 || length >= sizeof notify->to)
        return false;
    memcpy(notify->to, text, length + 1);
    return true;
}

static socklen_t native_address(const char *text, struct sockaddr_un *native)
{
    size_t length = strlen(text);
    *native = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(native->sun_path, text, length + 1);
    if (text[0] == '@') { /* an abstract name, which the address length terminates */
        native->sun_path[0] = '\0';
        length--;
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
}

/* Returns the maximum interval between signs of life that the manager requires, in milliseconds; 0: none required. */
static uint32_t watchdog_ms(void)
{
    const char *microseconds = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (microseconds == NULL || (pid != NULL && strtoll(pid, NULL, 10) != (long long)getpid()))
        return 0;
    errno = 0;
    char *end;
    unsigned long long value = strtoull(microseconds, &end, 10);
    if (errno != 0 || *end != '\0' || microseconds[0] == '\0' || microseconds[0] == '-' || value == 0)
        return 0;
    value /= 1000;
    return value > UINT32_MAX ? UINT32_MAX : value < 2 ? 2 : (uint32_t)value;
}

void notify_open(struct notify *notify)
{
    *notify = (struct notify){.socket = -1};
    const char *text = getenv("NOTIFY_SOCKET");
    if (text == NULL || text[0] == '\0')
        return;
    if (!parse_address(text, notify)) {
        pccl_logger_print(PCCL_LOG_WARN, "notify", "ignoring NOTIFY_SOCKET: expected a path, or a name after '@'");
        return;
    }
    notify->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify->socket < 0) {
        pccl_logger_print(PCCL_LOG_WARN, "notify", "cannot create a socket for NOTIFY_SOCKET: %s", strerror(errno));
        return;
    }
    uint32_t wanted_ms = watchdog_ms();
    notify->watched = wanted_ms > 0;
    notify->beat_ms = notify->watched && wanted_ms / 2 < STATUS_MS ? wanted_ms / 2 : STATUS_MS;
}

void notify_say(const struct notify *notify, const char *message)
{
    if (notify->socket < 0)
        return;
    struct sockaddr_un to;
    socklen_t to_length = native_address(notify->to, &to);
    if (sendto(notify->socket, message, strlen(message), MSG_NOSIGNAL, (const struct sockaddr *)&to, to_length) < 0)
        pccl_logger_print(PCCL_LOG_DEBUG, "notify", "cannot notify the service manager: %s", strerror(errno));
}

void notify_beat(void *context, const struct pccl_master_counts *counts)
{
    struct notify *notify = context;
    if (notify->watched)
        notify_say(notify, "WATCHDOG=1");
    char status[sizeof notify->status];
    (void)snprintf(status, sizeof status, "STATUS=%s%u peers in %u groups, %u waiting to join, epoch %u.%llu",
                   counts->recovering ? "recovering: " : "", (unsigned)counts->members, (unsigned)counts->groups,
                   (unsigned)counts->pending, (unsigned)counts->epoch.inc, (unsigned long long)counts->epoch.number);
    if (strcmp(status, notify->status) == 0)
        return;
    memcpy(notify->status, status, sizeof status);
    notify_say(notify, status);
}

void notify_close(struct notify *notify)
{
    if (notify->socket >= 0)
        (void)close(notify->socket);
    notify->socket = -1;
}
