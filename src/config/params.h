/*
 * Table of all parameters: name, environment variable, type, default, range and help. A value in the options takes
 * precedence over the environment, and the environment over the default. The functions may be called on any thread, as
 * long as no thread changes the environment.
 */
#ifndef PCCL_CONFIG_PARAMS_H
#define PCCL_CONFIG_PARAMS_H

#include "core/base.h"
#include "core/limits.h"
#include "core/log.h"
#include "core/status.h"
#include "core/text.h"
#include "master/params.h"
#include "pccl.h"
#include "peer/params.h"

/*
 * Kinds. U32: a number from min to max; if the name contains "_bytes", K, M or G may follow it. SWITCH: a boolean.
 * LEVEL: a log level. TEXT: at most max characters of printable ASCII. SECRET: a join token (max is its length) or a
 * pre-shared secret, which is never shown in messages. HOSTS: at most max addresses "host" or "host:port". HOST: one
 * address without a port. The last three may be empty.
 * Ranges are written as plain numbers, because they are shown to users in this form.
 *
 * Columns: scope, kind, name, environment variable, default, min, max, help.
 */
#define PCCL_PARAM_MASTER_NUMBER(X, name, env, value, min, max, help) X(MASTER, U32, name, env, #value, min, max, help)
#define PCCL_PARAM_MASTER_TEXT(X, name, env, value, min, max, help) X(MASTER, TEXT, name, env, value, min, max, help)
#define PCCL_PARAM_PEER_NUMBER(X, name, env, value, min, max, help)                                                    \
    X(COMMUNICATOR, U32, name, env, #value, min, max, help)
#define PCCL_PARAMS(X)                                                                                                 \
    PCCL_MASTER_PARAMS(PCCL_PARAM_MASTER_NUMBER, PCCL_PARAM_MASTER_TEXT, X)                                            \
    X(MASTER, TEXT, topology_file, "PCCL_TOPOLOGY_FILE", "", 0, 1000,                                                  \
      "file for the topology report, written after each optimization; empty: none")                                    \
    X(MASTER, HOSTS, http, "PCCL_HTTP", "", 0, 4,                                                                      \
      "addresses for HTTP (metrics and status), with optional ports (default 48180); empty: none")                     \
    X(MASTER, TEXT, admin_token_file, "PCCL_ADMIN_TOKEN_FILE", "", 0, 1000,                                            \
      "file with the token that allows draining and expelling peers over HTTP; empty: not allowed")                    \
    X(MASTER, TEXT, alert_command, "PCCL_ALERT_COMMAND", "", 0, 1000,                                                  \
      "shell command for verdicts, and when the run stalls or continues; empty: none")                                 \
    X(MASTER, U32, alert_limit_s, "PCCL_ALERT_LIMIT_S", "30", 1, 3600,                                                 \
      "time in seconds after which the alert command is ended")                                                        \
    X(MASTER, U32, alert_stall_s, "PCCL_ALERT_STALL_S", "900", 0, 4000000,                                             \
      "time in seconds without the end of an operation after which the run counts as stalled; 0: never")               \
    X(MASTER, TEXT, http_cert, "PCCL_HTTP_CERT", "", 0, 1000,                                                          \
      "PEM file with the HTTPS certificate for non-loopback addresses; empty: master_tls_cert")                        \
    X(MASTER, TEXT, http_key, "PCCL_HTTP_KEY", "", 0, 1000,                                                            \
      "PEM file with the key of http_cert; empty: master_tls_key")                                                     \
    X(MASTER, TEXT, master_tls_cert, "PCCL_MASTER_TLS_CERT", "", 0, 1000,                                              \
      "PEM file with the master's certificate, instead of tokens; its OU is pccl-master; empty: none")                 \
    X(MASTER, TEXT, master_tls_key, "PCCL_MASTER_TLS_KEY", "", 0, 1000, "PEM file with the key of master_tls_cert")    \
    X(MASTER, TEXT, master_tls_ca, "PCCL_MASTER_TLS_CA", "", 0, 1000,                                                  \
      "PEM file with the authority that signs peers' certificates, whose OU is pccl-join")                             \
    X(MASTER, TEXT, master_token_file, "PCCL_MASTER_TOKEN_FILE", "", 0, 1000,                                          \
      "file with the token that peers need to join, created if missing; empty: no token, no encryption")               \
    X(MASTER, TEXT, master_state, "PCCL_MASTER_STATE", "", 0, 1000,                                                    \
      "directory for the master's key, its token unless master_token_file is set, and a record of the active run; "    \
      "empty: none")                                                                                                   \
    X(MASTER, TEXT, encryption, "PCCL_ENCRYPTION", "on", 0, 7,                                                         \
      "encryption with a token: on, control (payload unencrypted on authenticated links) or off")                      \
    X(MASTER, SWITCH, insecure, "PCCL_INSECURE", "0", 0, 1,                                                            \
      "1: disables the warning about listening on non-loopback addresses without a token, and allows plain HTTP "      \
      "there")                                                                                                         \
    X(COMMUNICATOR, SECRET, token, "PCCL_TOKEN", "", 0, 77,                                                            \
      "the master's token, used to join and to encrypt; empty: read from token_file")                                  \
    X(COMMUNICATOR, TEXT, token_file, "PCCL_TOKEN_FILE", "", 0, 1000,                                                  \
      "file with the master's token; empty: no token, no encryption")                                                  \
    X(COMMUNICATOR, TEXT, tls_cert, "PCCL_TLS_CERT", "", 0, 1000,                                                      \
      "PEM file with this peer's certificate, instead of a token; its OU is pccl-join; empty: none")                   \
    X(COMMUNICATOR, TEXT, tls_key, "PCCL_TLS_KEY", "", 0, 1000, "PEM file with the key of tls_cert")                   \
    X(COMMUNICATOR, TEXT, tls_ca, "PCCL_TLS_CA", "", 0, 1000,                                                          \
      "PEM file with the authority that signed the master's certificate, whose OU is pccl-master")                     \
    X(COMMUNICATOR, U32, rekey_ms, "PCCL_REKEY_MS", "3600000", 10, 604800000,                                          \
      "interval after which an encrypted connection renews its keys by a new key exchange")                            \
    PCCL_PEER_PARAMS(PCCL_PARAM_PEER_NUMBER, X)                                                                        \
    X(COMMUNICATOR, SWITCH, extended_results, "PCCL_EXTENDED_RESULTS", "0", 0, 1,                                      \
      "1: calls of PCCL 1.0 may also return result codes above 12")                                                    \
    X(COMMUNICATOR, U32, peer_group, "PCCL_PEER_GROUP", "0", 0, 4294967295,                                            \
      "peer group: operations run among peers with the same number")                                                   \
    X(COMMUNICATOR, U32, connection_pool_size, "PCCL_CONNECTION_POOL_SIZE", "0", 0, 64,                                \
      "connections to each neighbor; 0: chosen by the library")                                                        \
    X(COMMUNICATOR, U32, window_bytes, "PCCL_WINDOW_BYTES", "8388608", 65536, 1073741824,                              \
      "bytes in flight per peer and reduction (twice as many with two peers); should exceed bandwidth times "          \
      "round-trip time")                                                                                               \
    X(COMMUNICATOR, U32, scratch_bytes, "PCCL_SCRATCH_BYTES", "50331648", 1048576, 4294967295,                         \
      "memory for the data in flight of all reductions together; each reduction always gets its minimum window")       \
    X(COMMUNICATOR, U32, spin_us, "PCCL_SPIN_US", "50", 0, 1000,                                                       \
      "microseconds for which a blocking call polls for data after the last arrival before it sleeps; 0: no polling")  \
    X(COMMUNICATOR, U32, feedback_mib, "PCCL_FEEDBACK_MIB", "4096", 0, 16777216,                                       \
      "memory limit in MiB for the error feedback of all tags together: 8 bytes per element")                          \
    X(COMMUNICATOR, HOST, bind_address, "PCCL_BIND_ADDRESS", "", 0, 1,                                                 \
      "local address to listen on for peers; empty: all")                                                              \
    X(COMMUNICATOR, HOSTS, advertise_addresses, "PCCL_ADVERTISE_ADDRESSES", "", 0, 16,                                 \
      "addresses, with optional ports, that other peers use for this peer instead of the detected ones")               \
    X(COMMUNICATOR, U32, port, "PCCL_PORT", "48149", 0, 65535, "port to listen on for peers; 0: chosen by the system") \
    X(COMMUNICATOR, U32, port_range, "PCCL_PORT_RANGE", "1024", 1, 65536,                                              \
      "number of ports to try, from port upward; limits how many peers can listen on one host")                        \
    X(COMMUNICATOR, TEXT, local, "PCCL_LOCAL", "auto", 0, 7,                                                           \
      "transport between peers on one host: auto (shared memory where supported), unix (sockets) or tcp")              \
    X(COMMUNICATOR, TEXT, local_dir, "PCCL_LOCAL_DIR", "", 0, 1000,                                                    \
      "directory with mode 700 for connections between a user's local peers; empty: in XDG_RUNTIME_DIR or /tmp")       \
    X(COMMUNICATOR, TEXT, name, "PCCL_NAME", "", 0, 64,                                                                \
      "name of this peer in errors and logs; the master also recognizes an expelled slow peer by its name")            \
    X(COMMUNICATOR, U32, recorder_operations, "PCCL_RECORDER_OPERATIONS", "256", 1, 65536,                             \
      "number of completed operations that the flight recorder keeps, up to 830 bytes each")                           \
    X(COMMUNICATOR, TEXT, recorder_dir, "PCCL_RECORDER_DIR", "", 0, 1000,                                              \
      "directory for this peer's flight recorder file, written when operations fail; empty: none")                     \
    X(COMMUNICATOR, U32, link_silence_ms, "PCCL_LINK_SILENCE_MS", "10000", 100, 3600000,                               \
      "time after which a link with unacknowledged bytes is closed")                                                   \
    X(COMMUNICATOR, U32, connect_timeout_ms, "PCCL_CONNECT_TIMEOUT_MS", "5000", 10, 600000,                            \
      "time limit for one attempt to connect to one address")                                                          \
    X(PROCESS, LEVEL, log_level, "PCCL_LOG_LEVEL", "WARN", 0, 0,                                                       \
      "minimum level of log lines: TRACE, DEBUG, INFO, WARN, ERR, FATAL or NONE")                                      \
    X(PROCESS, SECRET, secret, "PCCL_SECRET", "", 22, 256,                                                             \
      "pre-shared secret of the master and all peers, instead of a token; at least 16 random bytes, as text")          \
    X(PROCESS, TEXT, secret_file, "PCCL_SECRET_FILE", "", 0, 1000, "file with the pre-shared secret; empty: none")     \
    X(PROCESS, U32, max_concurrent_collective_ops, "PCCL_MAX_CONCURRENT_COLLECTIVE_OPS", "16", 1, 4294967295,          \
      "accepted for compatibility, no effect: operations do not wait for each other")                                  \
    X(PROCESS, U32, multiplex_chunk_size, "PCCL_MULTIPLEX_CHUNK_SIZE", "67108864", 1, 4294967295,                      \
      "accepted for compatibility, no effect yet")                                                                     \
    X(PROCESS, U32, num_benchmark_connections, "PCCL_NUM_BENCHMARK_CONNECTIONS", "16", 1, 4294967295,                  \
      "accepted for compatibility, no effect yet")

enum { PCCL_PARAM_BYTES_MAX = PCCL_PATH_BYTES_MAX }; /* longest value as text */

#define PCCL_PARAM_MEMBER_U32(name) uint32_t name;
#define PCCL_PARAM_MEMBER_SWITCH(name) bool name;
#define PCCL_PARAM_MEMBER_LEVEL(name) enum pccl_log_level name;
#define PCCL_PARAM_MEMBER_TEXT(name) char name[PCCL_PARAM_BYTES_MAX + 1];
#define PCCL_PARAM_MEMBER_SECRET(name) char name[PCCL_PARAM_BYTES_MAX + 1];
#define PCCL_PARAM_MEMBER_HOST(name) char name[PCCL_PARAM_BYTES_MAX + 1];
#define PCCL_PARAM_MEMBER_HOSTS(name) char name[PCCL_PARAM_BYTES_MAX + 1];
#define PCCL_PARAM_MEMBER(scope, kind, name, env, value, min, max, help) PCCL_PARAM_MEMBER_##kind(name)
enum pccl_param {
#define PCCL_PARAM_ENUM(scope, kind, name, env, value, min, max, help) PCCL_PARAM_##name,
    PCCL_PARAMS(PCCL_PARAM_ENUM)
#undef PCCL_PARAM_ENUM
        PCCL_PARAM_COUNT
};

struct pccl_params {
    PCCL_PARAMS(PCCL_PARAM_MEMBER)
    bool given[PCCL_PARAM_COUNT]; /* true if an option or the environment has set it, even to its default value */
};

/* Values that a user has set, as texts. */
struct pcclOptions_t {
    char *values[PCCL_PARAM_COUNT]; /* owned; NULL: not set */
};

/* Returns PCCL_PARAM_COUNT if the name is unknown. */
enum pccl_param pccl_params_find(const char *name);
pcclParameterScope_t pccl_params_scope(enum pccl_param param);
bool pccl_params_is_secret(enum pccl_param param); /* its value is never shown */
/* Fills in all members but size, for a struct of info->size bytes. Returns ARGUMENT if the index or size is invalid. */
PCCL_MUST_CHECK enum pccl_status pccl_params_describe(size_t index, pcclParameterInfo_t *info);
/* Checks a value. Returns OK, or ARGUMENT with a reason that contains the parameter, the value and the range. */
PCCL_MUST_CHECK enum pccl_status pccl_params_check(enum pccl_param param, const char *value, struct pccl_text *reason);
/* Returns the value that was set, or NULL. Valid until the option is set again. `options` may be NULL. */
const char *pccl_params_option(const pcclOptions_t *options, enum pccl_param param);
/*
 * Returns the effective value as text, borrowed: the option, the environment variable unless it is empty, or the
 * default. `options` may be NULL.
 */
const char *pccl_params_text(const pcclOptions_t *options, enum pccl_param param);
/*
 * Fills in *out: parameters of this scope from options, environment and defaults, and all others with their defaults.
 * Returns ARGUMENT with a reason if a value of the scope is invalid or inconsistent with another; *out is then
 * unspecified.
 */
PCCL_MUST_CHECK enum pccl_status pccl_params_load(const pcclOptions_t *options, pcclParameterScope_t scope,
                                                  struct pccl_params *out, struct pccl_text *reason);
/*
 * Applies the parameters of scope process on the first call; later calls have no effect. Called by pcclInit and before
 * a master is created. For an invalid value, logs a warning and uses the default; also warns about unknown PCCL_*
 * variables.
 */
void pccl_params_init_process(void);
/* Reports each variable in `environment` (a list like environ) that begins with PCCL_ but has no effect. */
void pccl_params_unknown(char *const *environment, void (*report)(void *context, const char *name), void *context);

/* Returns true if peers on the same host are connected without TCP. */
bool pccl_params_use_local_sockets(const struct pccl_params *params);
/* Returns true if these peers are connected through shared memory, without encryption. */
bool pccl_params_use_pipes(const struct pccl_params *params);

/* One item of an address list. */
struct pccl_endpoint {
    char host[256]; /* host name, IPv4 address, or IPv6 address without brackets */
    uint16_t port;
    bool has_port; /* true if the list contains the port; otherwise `port` is the default */
};
/*
 * Reads the next item of a comma-separated list of "host", "host:port", "[v6]:port" or "v6". *cursor initially points
 * to the beginning of the list, and each call advances it. Returns OK, or ARGUMENT with a reason. At the end of the
 * list, or for an empty list, *more is false and *out is unchanged.
 */
PCCL_MUST_CHECK enum pccl_status pccl_endpoint_next(const char **cursor, uint16_t default_port,
                                                    struct pccl_endpoint *out, bool *more, struct pccl_text *reason);

#endif
