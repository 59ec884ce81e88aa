/*
 * Sockets at a path, in a directory that only this user can access. libuv polls only sockets, not named pipes, so a
 * listener is a TCP socket on the loopback address, and the file at the path contains its port. A client proves that it
 * may access the directory by a file whose name ends with the client's own port.
 *
 * The system removes the files with the processes that hold them open.
 */
#include "os/socket_windows.h"

#include "os/native.h"
#include "os/private_windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 1100, PORT_BYTES = 8, CONNECT_MS = 5000 };

struct local {
    struct local *next;
    uv_os_sock_t socket;
    bool listens;
    HANDLE file;
    char path[NAME_BYTES];
};

static const struct pccl_address loopback = {.ip = {[10] = 0xff, 0xff, 127, [15] = 1}};
static uv_once_t once = UV_ONCE_INIT;
static uv_mutex_t lock; /* protects `all` */
static struct local *all;

static void initialize(void) { (void)uv_mutex_init(&lock); /* never fails on Windows */ }

static int last_error(void) { return uv_translate_sys_error((int)GetLastError()); }

static void write_name(char name[NAME_BYTES + PORT_BYTES], const char *path, uint16_t port)
{
    (void)snprintf(name, NAME_BYTES + PORT_BYTES, "%s.%u", path, (unsigned)port);
}

/* Creates a file that contains the text and is removed when it is closed. Returns 0 or an error. */
static int create_file(const char *path, const char *text, HANDLE *file)
{
    SECURITY_ATTRIBUTES only_ours;
    DWORD written;
    if (!pccl_private_describe(&only_ours))
        return last_error();
    *file = CreateFileA(path, GENERIC_WRITE | DELETE, FILE_SHARE_READ, &only_ours, CREATE_ALWAYS,
                        FILE_FLAG_DELETE_ON_CLOSE, NULL);
    int error = *file != INVALID_HANDLE_VALUE               ? 0
                : GetLastError() == ERROR_SHARING_VIOLATION ? UV_EADDRINUSE
                                                            : last_error();
    (void)LocalFree(only_ours.lpSecurityDescriptor);
    if (error == 0 && !WriteFile(*file, text, (DWORD)strlen(text), &written, NULL)) {
        error = last_error();
        (void)CloseHandle(*file);
    }
    return error;
}

static struct local *find(uv_os_sock_t socket, struct local ***place)
{
    struct local **at = &all;
    while (*at && (*at)->socket != socket)
        at = &(*at)->next;
    *place = at;
    return *at;
}

/* Creates the socket's file, and keeps it until the socket is closed. Closes the socket on failure. */
static int keep(uv_os_sock_t socket, bool listens, const char *path, const char *file, uv_os_sock_t *out)
{
    struct local *local = calloc(1, sizeof *local);
    struct pccl_address own;
    char text[PORT_BYTES];
    int error = !local ? UV_ENOMEM : !pccl_socket_local(socket, &own) ? UV_ENOTCONN : 0;
    if (error == 0) {
        (void)snprintf(text, sizeof text, "%u", (unsigned)own.port);
        error = create_file(file, text, &local->file);
    }
    if (error) {
        free(local);
        (void)closesocket(socket);
        return error;
    }
    local->socket = socket;
    local->listens = listens;
    memcpy(local->path, path, strlen(path) + 1);
    uv_mutex_lock(&lock);
    local->next = all;
    all = local;
    uv_mutex_unlock(&lock);
    *out = socket;
    return 0;
}

int pccl_socket_listen_local(const char *path, uv_os_sock_t *out)
{
    uv_os_sock_t opened;
    uv_once(&once, initialize);
    if (strlen(path) >= NAME_BYTES)
        return UV_ENAMETOOLONG;
    int error = pccl_socket_listen(&loopback, &opened);
    return error ? error : keep(opened, true, path, path, out);
}

bool pccl_socket_admits(uv_os_sock_t listening, const struct pccl_address *from)
{
    struct local **place;
    char name[NAME_BYTES + PORT_BYTES] = "";
    uv_once(&once, initialize);
    uv_mutex_lock(&lock);
    const struct local *local = find(listening, &place);
    if (local && local->listens)
        write_name(name, local->path, from->port);
    uv_mutex_unlock(&lock);
    return name[0] == '\0' || GetFileAttributesA(name) != INVALID_FILE_ATTRIBUTES;
}

void pccl_socket_end_local(uv_os_sock_t socket)
{
    struct local **place;
    uv_once(&once, initialize);
    uv_mutex_lock(&lock);
    struct local *local = find(socket, &place);
    if (local)
        *place = local->next;
    uv_mutex_unlock(&lock);
    if (local)
        (void)CloseHandle(local->file);
    free(local);
}

/* Reads the listener's port. Returns UV_ENOENT if there is no listener. */
static int read_port(const char *path, uint16_t *port)
{
    char text[PORT_BYTES] = "";
    DWORD length;
    *port = 0;
    /* Fails for the file of a listener, which is open for writing. Other files remain from a crash of the system. */
    HANDLE file = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    if (file != INVALID_HANDLE_VALUE) {
        (void)CloseHandle(file);
        return UV_ENOENT;
    }
    if (GetLastError() != ERROR_SHARING_VIOLATION)
        return last_error();
    file = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                       0, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return last_error();
    int error = ReadFile(file, text, sizeof text - 1, &length, NULL) ? 0 : last_error();
    (void)CloseHandle(file);
    *port = (uint16_t)strtoul(text, NULL, 10);
    return error;
}

/* Opens a socket that is bound to a port of the loopback address. Returns 0 or an error. */
static int open_bound(uv_os_sock_t *opened)
{
    struct sockaddr_storage native;
    socklen_t length = pccl_native_from(&loopback, &native);
    int error = pccl_socket_open(AF_INET, SOCK_STREAM, opened);
    if (error == 0 && bind(*opened, (const struct sockaddr *)&native, length) != 0) {
        error = uv_translate_sys_error(WSAGetLastError());
        (void)closesocket(*opened);
    }
    return error;
}

/* Returns 0 or an error. */
static int connect_to(uv_os_sock_t socket, uint16_t port)
{
    struct pccl_address address = loopback;
    struct sockaddr_storage native;
    address.port = port;
    socklen_t length = pccl_native_from(&address, &native);
    if (connect(socket, (const struct sockaddr *)&native, length) != 0 && WSAGetLastError() != WSAEWOULDBLOCK)
        return uv_translate_sys_error(WSAGetLastError());
    return pccl_socket_await(socket, true, CONNECT_MS) ? pccl_socket_outcome(socket) : UV_ETIMEDOUT;
}

int pccl_socket_dial_at(const char *path, uv_os_sock_t *out)
{
    char name[NAME_BYTES + PORT_BYTES];
    struct pccl_address own;
    uv_os_sock_t opened;
    uint16_t port;
    uv_once(&once, initialize);
    if (strlen(path) >= NAME_BYTES)
        return UV_ENAMETOOLONG;
    int error = read_port(path, &port);
    error = error ? error : open_bound(&opened);
    if (error)
        return error;
    write_name(name, path, pccl_socket_local(opened, &own) ? own.port : 0);
    error = keep(opened, false, path, name, out);
    if (error)
        return error;
    error = connect_to(opened, port);
    if (error)
        pccl_socket_close(opened);
    return error;
}
