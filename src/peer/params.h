/*
 * Parameters that the peer's machine uses unchanged, with their ranges and defaults. config/params.h adds them to the
 * table of all parameters.
 */
#ifndef PCCL_PEER_PARAMS_H
#define PCCL_PEER_PARAMS_H

/*
 * NUMBER: a field of struct pccl_peer_config. X is passed through.
 *
 *  X   name   env   default   min   max   help
 */
#define PCCL_PEER_PARAMS(NUMBER, X)                                                                                    \
    NUMBER(X, master_lost_ms, "PCCL_MASTER_LOST_MS", 120000, 100, 604800000,                                           \
           "time a peer waits for a lost master before it gives up; more than the master's alone_ms")                  \
    NUMBER(X, connect_retry_ms, "PCCL_CONNECT_RETRY_MS", 30000, 0, 604800000,                                          \
           "time for which connect retries if a busy master closes its connections without an answer")                 \
    NUMBER(X, where_ms, "PCCL_WHERE_MS", 2000, 10, 86400000,                                                           \
           "time after which a waiting call is reported to the master and logged with the missing peers")              \
    NUMBER(X, dial_ms, "PCCL_DIAL_MS", 10, 1, 60000,                                                                   \
           "initial delay between two attempts to connect; it doubles up to dial_max_ms")                              \
    NUMBER(X, dial_max_ms, "PCCL_DIAL_MAX_MS", 1000, 1, 600000, "maximum delay between two attempts to connect")       \
    NUMBER(X, op_timeout_ms, "PCCL_OP_TIMEOUT_MS", 0, 0, 604800000, "deadline of a reduction; 0: none")                \
    NUMBER(X, call_timeout_ms, "PCCL_CALL_TIMEOUT_MS", 0, 0, 604800000,                                                \
           "deadline of connect, of joint calls and of get topology; 0: none")                                         \
    NUMBER(X, drain_ms, "PCCL_DRAIN_MS", 20000, 0, 604800000,                                                          \
           "time a peer that requested its drain waits for a topology update before it leaves without one")            \
    NUMBER(X, stuck_ms, "PCCL_STUCK_MS", 30000, 0, 604800000,                                                          \
           "time limit for calls that can never meet; if set explicitly, also for operations that wait for each "      \
           "other; 0: none")

#endif
