/*
 * The one table of tunables: name, environment variable, type, default, range, help. A value is taken from the options
 * handle, else from the environment, else it is the default. Any thread, as long as no thread changes the environment.
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
 * Kinds: U32 a number from min to max; SWITCH; LEVEL a log level; TEXT printable ASCII of at most max bytes; SECRET a
 * join token (max: its length) or a pre-shared secret, which no message shows; HOSTS at most max addresses "host" or
 * "host:port", HOST one without a port (all three may be empty). Ranges are plain numbers: users see them in this form.
 *
 * scope kind name env default min max help
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
      "addresses, with or without ports (48180), at which the master answers HTTP: metrics and status; empty: none")   \
    X(MASTER, TEXT, admin_token_file, "PCCL_ADMIN_TOKEN_FILE", "", 0, 1000,                                            \
      "file with the token of those who may drain and expel peers over HTTP; empty: nobody may")                       \
    X(MASTER, TEXT, http_cert, "PCCL_HTTP_CERT", "", 0, 1000,                                                          \
      "PEM file with the certificate for HTTPS beyond this machine; empty: master_tls_cert")                           \
    X(MASTER, TEXT, http_key, "PCCL_HTTP_KEY", "", 0, 1000,                                                            \
      "PEM file with the key of http_cert; empty: master_tls_key")                                                     \
    X(MASTER, TEXT, master_tls_cert, "PCCL_MASTER_TLS_CERT", "", 0, 1000,                                              \
      "PEM file with the master's certificate, in the place of tokens; its OU is pccl-master; empty: none")            \
    X(MASTER, TEXT, master_tls_key, "PCCL_MASTER_TLS_KEY", "", 0, 1000, "PEM file with the key of master_tls_cert")    \
    X(MASTER, TEXT, master_tls_ca, "PCCL_MASTER_TLS_CA", "", 0, 1000,                                                  \
      "PEM file with the authority whose certificates let peers in, with the OU pccl-join")                            \
    X(MASTER, TEXT, master_token_file, "PCCL_MASTER_TOKEN_FILE", "", 0, 1000,                                          \
      "file with the token that peers need to join, made if it is missing; empty: no token, no encryption")            \
    X(MASTER, TEXT, master_state, "PCCL_MASTER_STATE", "", 0, 1000,                                                    \
      "directory for the master's key, its token without master_token_file, and a note that a run lives; or empty")    \
    X(MASTER, TEXT, encryption, "PCCL_ENCRYPTION", "on", 0, 7,                                                         \
      "with a token: on, control (payload travels in the clear on authenticated links) or off")                        \
    X(MASTER, SWITCH, insecure, "PCCL_INSECURE", "0", 0, 1,                                                            \
      "1: no warning when a master without a token listens beyond this machine, and HTTP there may be in the clear")   \
    X(COMMUNICATOR, SECRET, token, "PCCL_TOKEN", "", 0, 77,                                                            \
      "the master's token, with which a peer joins and encrypts; empty: that of token_file")                           \
    X(COMMUNICATOR, TEXT, token_file, "PCCL_TOKEN_FILE", "", 0, 1000,                                                  \
      "file with the master's token; empty: none, nothing is encrypted")                                               \
    X(COMMUNICATOR, TEXT, tls_cert, "PCCL_TLS_CERT", "", 0, 1000,                                                      \
      "PEM file with this peer's certificate, in the place of a token; its OU is pccl-join; empty: none")              \
    X(COMMUNICATOR, TEXT, tls_key, "PCCL_TLS_KEY", "", 0, 1000, "PEM file with the key of tls_cert")                   \
    X(COMMUNICATOR, TEXT, tls_ca, "PCCL_TLS_CA", "", 0, 1000,                                                          \
      "PEM file with the authority that has signed the master's certificate, whose OU is pccl-master")                 \
    X(COMMUNICATOR, U32, rekey_ms, "PCCL_REKEY_MS", "3600000", 10, 604800000,                                          \
      "after this time an encrypted connection gets new keys, by a new key exchange")                                  \
    PCCL_PEER_PARAMS(PCCL_PARAM_PEER_NUMBER, X)                                                                        \
    X(COMMUNICATOR, SWITCH, extended_results, "PCCL_EXTENDED_RESULTS", "0", 0, 1,                                      \
      "1: calls that PCCL 1.0 has may return result codes above 12 too")                                               \
    X(COMMUNICATOR, U32, peer_group, "PCCL_PEER_GROUP", "0", 0, 4294967295,                                            \
      "reductions happen among peers with the same number")                                                            \
    X(COMMUNICATOR, U32, connection_pool_size, "PCCL_CONNECTION_POOL_SIZE", "0", 0, 64,                                \
      "connections to each neighbor; 0: the library chooses")                                                          \
    X(COMMUNICATOR, U32, window_bytes, "PCCL_WINDOW_BYTES", "8388608", 65536, 1073741824,                              \
      "bytes of a reduction in flight from each peer, with two peers twice that; exceed bandwidth times round trip")   \
    X(COMMUNICATOR, U32, scratch_bytes, "PCCL_SCRATCH_BYTES", "50331648", 1048576, 4294967295,                         \
      "memory for the data in flight of all reductions together; each always gets its smallest window")                \
    X(COMMUNICATOR, U32, feedback_mib, "PCCL_FEEDBACK_MIB", "4096", 0, 16777216,                                       \
      "memory in MiB that the error feedback of all tags together may take: 8 bytes for each element")                 \
    X(COMMUNICATOR, HOST, bind_address, "PCCL_BIND_ADDRESS", "", 0, 1,                                                 \
      "local address to listen on for peers; empty: all")                                                              \
    X(COMMUNICATOR, HOSTS, advertise_addresses, "PCCL_ADVERTISE_ADDRESSES", "", 0, 16,                                 \
      "addresses, with or without ports, that other peers use for this one instead of the detected ones")              \
    X(COMMUNICATOR, U32, port, "PCCL_PORT", "48149", 0, 65535, "port to listen on for peers; 0: the system chooses")   \
    X(COMMUNICATOR, U32, port_range, "PCCL_PORT_RANGE", "1024", 1, 65536,                                              \
      "how many ports are tried, from port upwards: the most peers of one host that listen there")                     \
    X(COMMUNICATOR, TEXT, local, "PCCL_LOCAL", "auto", 0, 7,                                                           \
      "data between peers on one host: auto (memory that both map, where the system has that), unix (sockets) or tcp") \
    X(COMMUNICATOR, TEXT, local_dir, "PCCL_LOCAL_DIR", "", 0, 1000,                                                    \
      "directory of mode 700 through which local peers of a user connect; empty: in XDG_RUNTIME_DIR or /tmp")          \
    X(COMMUNICATOR, TEXT, name, "PCCL_NAME", "", 0, 64,                                                                \
      "name of this peer in errors and logs; by it the master recognizes an expelled slow peer (cool-down)")           \
    X(COMMUNICATOR, U32, recorder_operations, "PCCL_RECORDER_OPERATIONS", "256", 1, 65536,                             \
      "ended operations that the flight recorder keeps; each takes up to 830 bytes")                                   \
    X(COMMUNICATOR, TEXT, recorder_dir, "PCCL_RECORDER_DIR", "", 0, 1000,                                              \
      "folder for the flight recorder's file of this peer, written when operations fail; empty: none")                 \
    X(COMMUNICATOR, U32, link_silence_ms, "PCCL_LINK_SILENCE_MS", "10000", 100, 3600000,                               \
      "a link on which sent bytes stay unacknowledged for this long is closed")                                        \
    X(COMMUNICATOR, U32, connect_timeout_ms, "PCCL_CONNECT_TIMEOUT_MS", "5000", 10, 600000,                            \
      "limit of one attempt to connect to one address")                                                                \
    X(PROCESS, LEVEL, log_level, "PCCL_LOG_LEVEL", "WARN", 0, 0,                                                       \
      "lines below this level are not logged: TRACE, DEBUG, INFO, WARN, ERR, FATAL or NONE")                           \
    X(PROCESS, SECRET, secret, "PCCL_SECRET", "", 22, 256,                                                             \
      "pre-shared secret of the master and all peers, in the place of a token; 16 random bytes or more, as text")      \
    X(PROCESS, TEXT, secret_file, "PCCL_SECRET_FILE", "", 0, 1000, "file with the pre-shared secret; empty: none")     \
    X(PROCESS, U32, max_concurrent_collective_ops, "PCCL_MAX_CONCURRENT_COLLECTIVE_OPS", "16", 1, 4294967295,          \
      "accepted for compatibility, no effect: operations do not wait for one another")                                 \
    X(PROCESS, U32, multiplex_chunk_size, "PCCL_MULTIPLEX_CHUNK_SIZE", "67108864", 1, 4294967295,                      \
      "accepted for compatibility, no effect yet")                                                                     \
    X(PROCESS, U32, num_benchmark_connections, "PCCL_NUM_BENCHMARK_CONNECTIONS", "16", 1, 4294967295,                  \
      "accepted for compatibility, no effect yet")

enum { PCCL_PARAM_BYTES_MAX = PCCL_PATH_BYTES_MAX }; /* of any value as text */

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
    bool given[PCCL_PARAM_COUNT]; /* true: set by an option or in the environment, also to the default value */
};

/* Values that a user has set, as texts. */
struct pcclOptions_t {
    char *values[PCCL_PARAM_COUNT]; /* owned; NULL: not set */
};

/* Returns PCCL_PARAM_COUNT if there is no such name. */
enum pccl_param pccl_params_find(const char *name);
pcclParameterScope_t pccl_params_scope(enum pccl_param param);
bool pccl_params_is_secret(enum pccl_param param); /* its value is never shown */
/* Fills all members but size, for a struct of info->size bytes. Returns ARGUMENT for a bad index or size. */
PCCL_MUST_CHECK enum pccl_status pccl_params_describe(size_t index, pcclParameterInfo_t *info);
/* Returns OK if the text would be accepted, else ARGUMENT with a reason that names parameter, value and range. */
PCCL_MUST_CHECK enum pccl_status pccl_params_check(enum pccl_param param, const char *value, struct pccl_text *reason);
/* Returns the value that was set, or NULL. Borrowed until the option is set again. `options` may be NULL. */
const char *pccl_params_option(const pcclOptions_t *options, enum pccl_param param);
/* Returns the effective text: option, environment (empty counts as unset) or default. Borrowed. options may be NULL. */
const char *pccl_params_text(const pcclOptions_t *options, enum pccl_param param);
/*
 * Fills *out: the parameters of the scope from options, environment and defaults, and the others with their defaults.
 * Returns ARGUMENT with a reason if a value of the scope is bad or two do not fit together; *out is then unspecified.
 */
PCCL_MUST_CHECK enum pccl_status pccl_params_load(const pcclOptions_t *options, pcclParameterScope_t scope,
                                                  struct pccl_params *out, struct pccl_text *reason);
/*
 * Applies the parameters of the process, once: the first call does everything. For pcclInit and before a master is
 * made. Warns about bad values, and uses their defaults, and about unknown variables PCCL_*.
 */
void pccl_params_init_process(void);
/* Reports each variable of `environment` (like environ) that begins with PCCL_ and has no effect. */
void pccl_params_unknown(char *const *environment, void (*report)(void *context, const char *name), void *context);

/* Returns true if peers on this host are reached without TCP. */
bool pccl_params_go_here(const struct pccl_params *params);
/* Returns true if they are reached through memory that both map, without encryption. */
bool pccl_params_use_pipes(const struct pccl_params *params);

/* One item of an address list. */
struct pccl_endpoint {
    char host[256]; /* a name, IPv4, or IPv6 without brackets */
    uint16_t port;
    bool has_port; /* given in the list; else `port` is the default */
};
/*
 * Takes the next item off a comma separated list: "host", "host:port", "[v6]:port", "v6". *cursor starts at the list
 * and moves. Returns OK, or ARGUMENT with a reason; at the end (an empty list has no items) *more is false and *out
 * unchanged.
 */
PCCL_MUST_CHECK enum pccl_status pccl_endpoint_next(const char **cursor, uint16_t default_port,
                                                    struct pccl_endpoint *out, bool *more, struct pccl_text *reason);

#endif
