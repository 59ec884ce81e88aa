/* Opens Unix sockets. */
#include "os/socket_posix.h"

#include "os/native.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int to_name(const char *path, struct sockaddr_un *name)
{
    size_t length = strlen(path);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (length >= sizeof name->sun_path)
        return UV_ENAMETOOLONG;
    memcpy(name->sun_path, path, length + 1);
    return 0;
}

/* Returns 0 or an error; the functions below do the same. */
static int bind_to(uv_os_sock_t socket, const struct sockaddr_un *name)
{
    return bind(socket, (const struct sockaddr *)name, sizeof *name) == 0 ? 0 : pccl_socket_last_error();
}

static int connect_to(uv_os_sock_t socket, const struct sockaddr_un *name)
{
    return connect(socket, (const struct sockaddr *)name, sizeof *name) == 0 ? 0 : pccl_socket_last_error();
}

static int begin_listening(uv_os_sock_t socket)
{
    return listen(socket, PCCL_LISTEN_BACKLOG) == 0 ? 0 : pccl_socket_last_error();
}

static int restrict_access(const char *path)
{
    return chmod(path, S_IRUSR | S_IWUSR) == 0 ? 0 : pccl_socket_last_error();
}

/* Removes the socket file of a process that has ended. Returns UV_EADDRINUSE if a process accepts connections there. */
static int remove_abandoned(const struct sockaddr_un *name)
{
    uv_os_sock_t dialed;
    int error = pccl_socket_open(AF_UNIX, SOCK_STREAM, &dialed);
    if (error)
        return error;
    error = connect_to(dialed, name);
    pccl_socket_close(dialed);
    if (error == 0 || error == UV_EAGAIN)
        return UV_EADDRINUSE;
    return unlink(name->sun_path) == 0 || errno == ENOENT ? 0 : pccl_socket_last_error();
}

static int close_on_error(uv_os_sock_t opened, int error, uv_os_sock_t *out)
{
    if (error)
        pccl_socket_close(opened);
    else
        *out = opened;
    return error;
}

int pccl_socket_listen_local(const char *path, uv_os_sock_t *out)
{
    struct sockaddr_un name;
    uv_os_sock_t opened;
    int error = to_name(path, &name);
    error = error ? error : remove_abandoned(&name);
    error = error ? error : pccl_socket_open(AF_UNIX, SOCK_STREAM, &opened);
    if (error)
        return error;
    error = bind_to(opened, &name);
    error = error ? error : restrict_access(path);
    return close_on_error(opened, error ? error : begin_listening(opened), out);
}

static int open_tuned(uv_os_sock_t *opened)
{
    int error = pccl_socket_open(AF_UNIX, SOCK_STREAM, opened);
    if (error)
        return error;
    pccl_socket_tune_here(*opened);
    pccl_socket_take_descriptors(*opened, false);
    return 0;
}

int pccl_socket_listen_at(const char *path, uv_os_sock_t *out)
{
    struct sockaddr_un name;
    uv_os_sock_t opened;
    int error = to_name(path, &name);
    error = error ? error : open_tuned(&opened);
    if (error)
        return error;
    error = bind_to(opened, &name);
    return close_on_error(opened, error ? error : begin_listening(opened), out);
}

int pccl_socket_dial_at(const char *path, uv_os_sock_t *out)
{
    struct sockaddr_un name;
    uv_os_sock_t opened;
    int error = to_name(path, &name);
    error = error ? error : open_tuned(&opened);
    return error ? error : close_on_error(opened, connect_to(opened, &name), out);
}

/* Connects a datagram socket: against a bound stream socket this fails, without any effect on that socket. */
bool pccl_socket_is_bound_at(const char *path)
{
    struct sockaddr_un name;
    uv_os_sock_t asking;
    if (to_name(path, &name) != 0 || pccl_socket_open(AF_UNIX, SOCK_DGRAM, &asking) != 0)
        return true;
    bool is_dead = connect_to(asking, &name) == UV_ECONNREFUSED;
    pccl_socket_close(asking);
    return !is_dead;
}
