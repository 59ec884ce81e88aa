/*
 * The one description of everything that travels on a control or data-control connection. The struct of each message, the
 * field table that encodes, decodes, prints and documents it, and the fuzzers' seeds all come from here.
 *
 * Ids are never reused, fields never reordered; a changed message is a new protocol version.
 * HELLO's and LINK_HELLO's first three fields, REFUSED, and the frame header are frozen for all versions, so that two
 * versions can always tell each other in words why they part.
 *
 * F(kind, name, type, cap): kind is U8 U16 U32 U64 ID SECRET ADDRESS BYTES TEXT STRUCT LIST;
 * type is the struct's name for STRUCT and LIST; cap bounds the bytes of BYTES and TEXT and the items of LIST.
 * Integers: the least and the greatest valid value instead; without them any value is valid. ID: 1 = may not be zero.
 */
#ifndef PCCL_WIRE_SCHEMA_H
#define PCCL_WIRE_SCHEMA_H

#include "core/limits.h"

#define PCCL_PROTOCOL_VERSION 1u
#define PCCL_PROTOCOL_MAGIC UINT64_C(0x31306c636370ab89) /* in every hello */

/* ---- structs inside messages ---- */

#define PCCL_FIELDS_epoch(F) /* (inc, number), compared in that order */                                               \
    F(U32, inc, , )                                                                                                    \
    F(U64, number, , )

#define PCCL_FIELDS_member(F)                                                                                          \
    F(ID, peer, 1, )                                                                                                   \
    F(U32, group, , )

#define PCCL_FIELDS_instance(F) /* the name of an operation: PROTOCOL 1.5; (joint, sync) is the era */                 \
    F(U32, group, , )                                                                                                  \
    F(U64, joint, , )                                                                                                  \
    F(U64, sync, , )                                                                                                   \
    F(U64, tag, , )                                                                                                    \
    F(U32, use, , )

#define PCCL_FIELDS_descriptor(F) /* what the caller asked for; equal on all peers or the operation fails */           \
    F(U8, datatype, 0, 11) /* pcclDataType_t */                                                                        \
    F(U8, operation, 0, 4) /* pcclRedOp_t */                                                                           \
    F(U8, codec, 0, 2) /* pcclQuantizationAlgorithm_t */                                                               \
    F(U8, codec_datatype, 0, 11)                                                                                       \
    F(U64, count, , ) /* elements */

#define PCCL_FIELDS_place(F) /* where a peer is */                                                                     \
    F(ID, peer, 1, )                                                                                                   \
    F(U8, state, PCCL_PLACE_HERE, PCCL_PLACE_DISCONNECTED) /* enum pccl_place_state */                                 \
    F(U8, call, PCCL_CALL_NONE, PCCL_CALL_CONNECT) /* enum pccl_call: what it waits in; NONE: nothing known */         \
    F(U64, detail, , ) /* the call's tag or round */                                                                   \
    F(U64, since_us, , )

#define PCCL_WIRE_STRUCTS(X) X(epoch) X(member) X(instance) X(descriptor) X(place)

/* ---- messages ---- */

#define PCCL_FIELDS_hello(F)                                                                                           \
    F(U64, magic, PCCL_PROTOCOL_MAGIC, PCCL_PROTOCOL_MAGIC)                                                            \
    F(U32, version, PCCL_PROTOCOL_VERSION, PCCL_PROTOCOL_VERSION)                                                      \
    F(U64, capabilities, , )                                                                                           \
    F(ID, lineage, , ) /* zero: a newcomer */                                                                          \
    F(U64, boot, , ) /* of the master it spoke with last; 0: none */                                                   \
    F(ID, peer, 1, )                                                                                                   \
    F(SECRET, token, 1, ) /* a secret that proves the id on reconnect */                                               \
    F(U32, group, , )                                                                                                  \
    F(U64, received, , ) /* last sequence number it has from that boot */                                              \
    F(U16, port, , ) /* its one listening port */                                                                      \
    F(LIST, candidates, address, PCCL_CANDIDATES_MAX) /* addresses it can be dialled at */                             \
    F(TEXT, name, , PCCL_NAME_MAX)                                                                                     \
    F(BYTES, authentication, , PCCL_AUTH_MAX) /* room for join tokens */

#define PCCL_FIELDS_hello_ok(F)                                                                                        \
    F(U32, version, PCCL_PROTOCOL_VERSION, PCCL_PROTOCOL_VERSION)                                                      \
    F(U64, capabilities, , )                                                                                           \
    F(ID, lineage, , )                                                                                                 \
    F(U64, boot, , )                                                                                                   \
    F(U8, mode, PCCL_HELLO_NEW, PCCL_HELLO_RESUME) /* enum pccl_hello_mode */                                          \
    F(U64, received, , ) /* last sequence number the master has from this peer (CONTINUE) */                           \
    F(U32, silence_ms, , )                                                                                             \
    F(U32, heartbeat_ms, , )                                                                                           \
    F(U32, tiny_bytes_max, , )                                                                                         \
    F(ADDRESS, observed, , ) /* where the master sees the peer come from */

#define PCCL_FIELDS_refused(F)                                                                                         \
    F(U32, version, , ) /* of the refusing side */                                                                     \
    F(U16, code, , ) /* enum pccl_refusal */                                                                           \
    F(TEXT, words, , PCCL_WORDS_MAX)

#define PCCL_FIELDS_heartbeat(F)                                                                                       \
    F(U8, answer, 0, 1) /* 1: answer with a heartbeat at once */                                                       \
    F(U64, stable, , ) /* master: outcomes up to this decision are known to all of the group */

#define PCCL_FIELDS_leave(F) F(TEXT, words, , PCCL_WORDS_MAX)

#define PCCL_FIELDS_vote(F)                                                                                            \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_PENDING) /* enum pccl_round_kind */                                      \
    F(U64, round, , )

#define PCCL_FIELDS_withdraw(F)                                                                                        \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_PENDING)                                                                 \
    F(U64, round, , )

#define PCCL_FIELDS_done(F) /* the sender's result is complete; for a tiny operation: its contribution */              \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, ) /* start view */                                                                          \
    F(STRUCT, descriptor, descriptor, )                                                                                \
    F(U8, tiny, 0, 1)                                                                                                  \
    F(BYTES, payload, , PCCL_TINY_BYTES_MAX)

#define PCCL_FIELDS_failed(F)                                                                                          \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U8, class, PCCL_CLASS_PEER_LOST, PCCL_CLASS_INTERNAL) /* enum pccl_class */                                      \
    F(TEXT, words, , PCCL_WORDS_MAX)

#define PCCL_FIELDS_abort_request(F)                                                                                   \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U8, class, PCCL_CLASS_PEER_LOST, PCCL_CLASS_INTERNAL)

#define PCCL_FIELDS_view_ack(F) /* what a view change killed at this peer */                                           \
    F(STRUCT, view, epoch, )                                                                                           \
    F(LIST, instances, instance, PCCL_OPS_PER_PEER_MAX)

#define PCCL_FIELDS_link_lost(F)                                                                                       \
    F(ID, peer, 1, )                                                                                                   \
    F(U8, incoming, 0, 1) /* 1: the other side had opened it */                                                        \
    F(U8, how, PCCL_LINK_CLOSED, PCCL_LINK_SILENT) /* enum pccl_link_end */

#define PCCL_FIELDS_link_up(F) F(ID, peer, 1, )

#define PCCL_FIELDS_where(F) /* "I have been waiting here" */                                                          \
    F(U8, call, PCCL_CALL_NONE, PCCL_CALL_CONNECT) /* enum pccl_call; NONE: not any more */                            \
    F(STRUCT, instance, instance, ) /* of an operation */                                                              \
    F(U64, round, , ) /* of a joint call */                                                                            \
    F(U64, since_us, , )

#define PCCL_FIELDS_resume(F) /* to a master of another boot: what this peer knows, in several messages */             \
    F(U32, inc, , )                                                                                                    \
    F(STRUCT, epoch, epoch, )                                                                                          \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U64, joint, , )                                                                                                  \
    F(U64, sync, , )                                                                                                   \
    F(U64, query, , )                                                                                                  \
    F(U64, revision, , )                                                                                               \
    F(U64, decisions, , ) /* highest decision number seen */                                                           \
    F(LIST, members, member, PCCL_PEERS_MAX)                                                                           \
    F(LIST, ring, id, PCCL_PEERS_MAX)

#define PCCL_FIELDS_resume_operation(F)                                                                                \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U8, state, PCCL_RESUME_RUNNING, PCCL_RESUME_ABORTED) /* enum pccl_resume_state */                                \
    F(U8, class, PCCL_CLASS_NONE, PCCL_CLASS_INTERNAL)                                                                 \
    F(U8, tiny, 0, 1)                                                                                                  \
    F(U32, world, , )                                                                                                  \
    F(STRUCT, descriptor, descriptor, )                                                                                \
    F(BYTES, payload, , PCCL_TINY_BYTES_MAX) /* DONE: the contribution; COMMITTED: the result */                       \
    F(TEXT, words, , PCCL_WORDS_MAX)

#define PCCL_FIELDS_resume_round(F) /* the last outcome of a kind of round */                                          \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_PENDING)                                                                 \
    F(U64, round, , )                                                                                                  \
    F(U8, outcome, PCCL_ROUND_DONE, PCCL_ROUND_WITHDRAWN)

#define PCCL_FIELDS_resume_end(F) F(LIST, dead, id, PCCL_PEERS_MAX) /* peers whose listener refuses: evidence */

#define PCCL_FIELDS_welcome(F) /* accepted */                                                                          \
    F(STRUCT, epoch, epoch, )                                                                                          \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U64, joint, , )                                                                                                  \
    F(U64, sync, , )                                                                                                   \
    F(U64, query, , )                                                                                                  \
    F(U64, revision, , )                                                                                               \
    F(ID, lineage, 1, )                                                                                                \
    F(LIST, members, member, PCCL_PEERS_MAX)                                                                           \
    F(LIST, ring, id, PCCL_PEERS_MAX)

#define PCCL_FIELDS_expelled(F)                                                                                        \
    F(U16, code, PCCL_REFUSAL_VERSION, PCCL_REFUSAL_LEFT) /* enum pccl_refusal */                                      \
    F(TEXT, words, , PCCL_WORDS_MAX)

#define PCCL_FIELDS_epoch_change(F)                                                                                    \
    F(STRUCT, epoch, epoch, )                                                                                          \
    F(U8, full, 0, 1) /* 1: `added` is the whole list */                                                               \
    F(LIST, added, member, PCCL_PEERS_MAX)                                                                             \
    F(LIST, removed, id, PCCL_PEERS_MAX)                                                                               \
    F(U8, view_changed, 0, 1) /* 1: this is also the receiver's group's new view, with this ring */                    \
    F(LIST, ring, id, PCCL_PEERS_MAX)                                                                                  \
    F(TEXT, words, , PCCL_WORDS_MAX) /* why */

#define PCCL_FIELDS_outcome(F)                                                                                         \
    F(STRUCT, instance, instance, )                                                                                    \
    F(U64, decision, , ) /* numbers the outcomes of a group */                                                         \
    F(U64, stable, , )                                                                                                 \
    F(U8, class, PCCL_CLASS_NONE, PCCL_CLASS_INTERNAL) /* enum pccl_class; NONE: committed */                          \
    F(U32, world, , ) /* committed: members of the view */                                                             \
    F(BYTES, result, , PCCL_TINY_BYTES_MAX)                                                                            \
    F(TEXT, words, , PCCL_WORDS_MAX)

#define PCCL_FIELDS_round(F)                                                                                           \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_PENDING)                                                                 \
    F(U64, round, , )                                                                                                  \
    F(U8, outcome, PCCL_ROUND_DONE, PCCL_ROUND_WITHDRAWN) /* enum pccl_round_outcome */                                \
    F(STRUCT, epoch, epoch, )

#define PCCL_FIELDS_warm_up(F) /* open a link to this peer and keep it */                                              \
    F(ID, lineage, , ) /* of the run, for a newcomer that does not know it yet */                                      \
    F(ID, peer, 1, )                                                                                                   \
    F(LIST, candidates, address, PCCL_CANDIDATES_MAX)

#define PCCL_FIELDS_forget(F) F(ID, peer, 1, ) /* a warmed-up newcomer is gone */

#define PCCL_FIELDS_who_is_where(F) /* the answer to WHERE */                                                          \
    F(U8, call, PCCL_CALL_NONE, PCCL_CALL_CONNECT)                                                                     \
    F(STRUCT, instance, instance, )                                                                                    \
    F(U64, round, , )                                                                                                  \
    F(U8, stuck, 0, 1) /* 1: everybody waits in calls that cannot meet */                                              \
    F(U32, missing, , ) /* how many have not come; the first few are named */                                          \
    F(LIST, places, place, PCCL_PLACES_MAX)

#define PCCL_FIELDS_recovered(F) /* a restarted master has its picture again: resend what is outstanding */            \
    F(U32, inc, , )                                                                                                    \
    F(U64, decisions, , )

#define PCCL_FIELDS_link_hello(F) /* first frame on a peer's port */                                                   \
    F(U64, magic, PCCL_PROTOCOL_MAGIC, PCCL_PROTOCOL_MAGIC)                                                            \
    F(U32, version, PCCL_PROTOCOL_VERSION, PCCL_PROTOCOL_VERSION)                                                      \
    F(U64, capabilities, , )                                                                                           \
    F(ID, lineage, , )                                                                                                 \
    F(ID, from, , )                                                                                                    \
    F(ID, to, 1, ) /* whom the caller means to reach */                                                                \
    F(U8, kind, PCCL_LINK_RING, PCCL_LINK_PROBE) /* enum pccl_link_kind */                                             \
    F(BYTES, authentication, , PCCL_AUTH_MAX)

#define PCCL_FIELDS_link_ok(F)                                                                                         \
    F(U32, version, PCCL_PROTOCOL_VERSION, PCCL_PROTOCOL_VERSION)                                                      \
    F(U64, capabilities, , )                                                                                           \
    F(ID, peer, 1, )

#define PCCL_FIELDS_link_bye(F) F(TEXT, words, , PCCL_WORDS_MAX) /* closed on purpose: no evidence of anything */

/*    id  name  from -> to */
#define PCCL_WIRE_MESSAGES(X)                                                                                          \
    X(1, hello, "peer to master, first on the connection, not numbered")                                               \
    X(2, hello_ok, "master to peer, not numbered")                                                                     \
    X(3, refused, "either side, not numbered; the connection closes after it")                                         \
    X(4, heartbeat, "both ways, not numbered, carries an acknowledgement")                                             \
    X(5, leave, "peer to master")                                                                                      \
    X(6, vote, "peer to master")                                                                                       \
    X(7, withdraw, "peer to master")                                                                                   \
    X(8, done, "peer to master")                                                                                       \
    X(9, failed, "peer to master")                                                                                     \
    X(10, abort_request, "peer to master")                                                                             \
    X(11, view_ack, "peer to master")                                                                                  \
    X(12, link_lost, "peer to master")                                                                                 \
    X(13, link_up, "peer to master")                                                                                   \
    X(14, where, "peer to master")                                                                                     \
    X(15, resume, "peer to master")                                                                                    \
    X(16, resume_operation, "peer to master")                                                                          \
    X(17, resume_round, "peer to master")                                                                              \
    X(18, resume_end, "peer to master")                                                                                \
    X(32, welcome, "master to peer")                                                                                   \
    X(33, expelled, "master to peer")                                                                                  \
    X(34, epoch_change, "master to peer")                                                                              \
    X(35, outcome, "master to peer")                                                                                   \
    X(36, round, "master to peer")                                                                                     \
    X(37, warm_up, "master to peer")                                                                                   \
    X(38, forget, "master to peer")                                                                                    \
    X(39, who_is_where, "master to peer")                                                                              \
    X(40, recovered, "master to peer")                                                                                 \
    X(64, link_hello, "peer to peer (or master to peer, to probe), first on a data connection")                        \
    X(65, link_ok, "answer to link_hello")                                                                             \
    X(66, link_bye, "peer to peer")

/* ---- enumerations on the wire ---- */

enum pccl_hello_mode {
    PCCL_HELLO_NEW = 1,      /* a newcomer: wait for WELCOME */
    PCCL_HELLO_CONTINUE = 2, /* the session goes on: both resend what the other has not */
    PCCL_HELLO_RESUME = 3,   /* the master knows nothing: new session, send RESUME */
};

enum pccl_refusal {
    PCCL_REFUSAL_VERSION = 1,   /* another protocol version */
    PCCL_REFUSAL_MALFORMED = 2, /* not understood, or not allowed here */
    PCCL_REFUSAL_FULL = 3,      /* a limit is reached */
    PCCL_REFUSAL_LINEAGE = 4,   /* another run, or a run that is over */
    PCCL_REFUSAL_IDENTITY = 5,  /* wrong token, or another peer than the one meant */
    PCCL_REFUSAL_NOT_WARM = 6,  /* links to the future neighbours could not be opened */
    PCCL_REFUSAL_SILENT = 7,    /* not heard of for too long */
    PCCL_REFUSAL_GONE = 8,      /* it was removed, or found dead, before */
    PCCL_REFUSAL_UNREACHABLE = 9, /* no ring can be built with it */
    PCCL_REFUSAL_PROTOCOL = 10, /* it broke the protocol */
    PCCL_REFUSAL_SHUTDOWN = 11, /* the master ends */
    PCCL_REFUSAL_LEFT = 12,     /* it said good-bye */
};

/* The class of an outcome. PEER_LOST means that a retry may succeed; the others that it will not. */
enum pccl_class {
    PCCL_CLASS_NONE = 0, /* committed */
    PCCL_CLASS_PEER_LOST = 1,
    PCCL_CLASS_MISMATCH = 2,
    PCCL_CLASS_ABORTED = 3,
    PCCL_CLASS_DEADLINE = 4,
    PCCL_CLASS_INTERNAL = 5,
    PCCL_CLASS_COUNT
};

enum pccl_link_end {
    PCCL_LINK_CLOSED = 1,      /* FIN or RST */
    PCCL_LINK_REFUSED = 2,     /* dialling: nobody listens there */
    PCCL_LINK_OTHER = 3,       /* dialling: another peer answers there */
    PCCL_LINK_TIMEOUT = 4,     /* dialling: no answer */
    PCCL_LINK_UNREACHABLE = 5, /* dialling: no route, or no candidate address can be dialled */
    PCCL_LINK_SILENT = 6,      /* an open link said nothing for too long */
};

enum pccl_link_kind { PCCL_LINK_RING = 1, PCCL_LINK_PROBE = 2 };

enum pccl_round_kind { PCCL_ROUND_UPDATE = 0, PCCL_ROUND_PENDING = 1, PCCL_ROUND_KINDS };
enum pccl_round_outcome {
    PCCL_ROUND_DONE = 0,      /* UPDATE: decided; PENDING: nobody waits */
    PCCL_ROUND_TRUE = 1,      /* PENDING: somebody waits */
    PCCL_ROUND_WITHDRAWN = 2, /* only this peer's vote was taken back */
};

enum pccl_call { PCCL_CALL_NONE = 0, PCCL_CALL_UPDATE = 1, PCCL_CALL_PENDING = 2, PCCL_CALL_REDUCE = 3, PCCL_CALL_CONNECT = 4 };
enum pccl_place_state { PCCL_PLACE_HERE = 0, PCCL_PLACE_ELSEWHERE = 1, PCCL_PLACE_SILENT = 2, PCCL_PLACE_DISCONNECTED = 3 };

enum pccl_resume_state {
    PCCL_RESUME_RUNNING = 0,
    PCCL_RESUME_DONE = 1,
    PCCL_RESUME_COMMITTED = 2,
    PCCL_RESUME_ABORTED = 3, /* also a tombstone */
};

#endif
