/*
 * Parameters of the master's machine with ranges and defaults, mixed with parameters of the driver in the order in
 * which users see them. config/params.h adds them to the table of all parameters.
 */
#ifndef PCCL_MASTER_PARAMS_H
#define PCCL_MASTER_PARAMS_H

/*
 * NUMBER: a field of struct pccl_master_config. TEXT: read by the driver. X is passed on.
 *
 * X name env default min max help
 */
#define PCCL_MASTER_PARAMS(NUMBER, TEXT, X)                                                                            \
    NUMBER(X, silence_ms, "PCCL_SILENCE_MS", 10000, 100, 3600000,                                                      \
           "time of silence after which a peer is considered dead")                                                    \
    NUMBER(X, heartbeat_ms, "PCCL_HEARTBEAT_MS", 2500, 10, 600000,                                                     \
           "heartbeat interval between the master and its peers; less than half of silence_ms")                        \
    NUMBER(X, recover_ms, "PCCL_RECOVER_MS", 10000, 100, 3600000,                                                      \
           "time a restarted master waits for all members before it accepts a majority")                               \
    NUMBER(X, alone_ms, "PCCL_ALONE_MS", 60000, 100, 86400000,                                                         \
           "time a restarted master waits for a majority before it continues with the available peers")                \
    NUMBER(X, found_after_ms, "PCCL_FOUND_AFTER_MS", 0, 0, 600000,                                                     \
           "time after the master's start before newcomers may begin a run, because an earlier one may be active; "    \
           "pccl-master: 1500")                                                                                        \
    NUMBER(X, settle_ms, "PCCL_SETTLE_MS", 250, 0, 600000,                                                             \
           "time allowed to reconnect a lost link between two live peers before the ring changes")                     \
    NUMBER(X, hello_ms, "PCCL_HELLO_MS", 5000, 10, 600000, "time after which a connection without a hello is closed")  \
    NUMBER(X, warm_up_ms, "PCCL_WARM_UP_MS", 10000, 10, 3600000,                                                       \
           "time after which a newcomer without links to its future neighbors is refused")                             \
    NUMBER(X, first_call_ms, "PCCL_FIRST_CALL_MS", 300000, 0, 604800000,                                               \
           "time within which the first peer of a new group must make a call while all others wait; 0: no limit")      \
    NUMBER(X, bad_edge_ms, "PCCL_BAD_EDGE_MS", 60000, 0, 86400000,                                                     \
           "time for which two peers whose link failed are not made neighbors in the ring")                            \
    NUMBER(X, hub_links, "PCCL_HUB_LINKS", 63, 0, 63,                                                                  \
           "maximum links per peer and direction for direct exchange in a group of more than 16; 0: none")             \
    NUMBER(X, tiny_bytes_max, "PCCL_TINY_BYTES_MAX", 8192, 0, 8192,                                                    \
           "maximum size of payloads that the master reduces")                                                         \
    NUMBER(X, optimize_ms, "PCCL_OPTIMIZE_MS", 2200, 100, 600000,                                                      \
           "total time of the link tests of one topology optimization")                                                \
    NUMBER(X, fresh_ms, "PCCL_FRESH_MS", 600000, 1, 604800000,                                                         \
           "time for which an optimization reuses a measurement of a path before it tests the path again")             \
    TEXT(X, slow_peer, "PCCL_SLOW_PEER", "warn", 0, 7,                                                                 \
         "action for a peer that slows down the others: warn, or expel after slow_peer_limit_s")                       \
    NUMBER(X, slow_peer_limit_s, "PCCL_SLOW_PEER_LIMIT_S", 60, 1, 604800,                                              \
           "seconds that a verdict against a slow peer must last before the peer is expelled; it may return after "    \
           "4 times as long")                                                                                          \
    NUMBER(X, slow_peer_floor, "PCCL_SLOW_PEER_FLOOR", 2, 1, 4096,                                                     \
           "minimum number of members that must remain in the group when a slow peer is expelled")

#endif
