/*
 * Well-known TCP ports. Only the first two are used by this library: a peer listens on one port for
 * everything (CCOIP_PROTOCOL_PORT_SHARED_STATE, or the next free one above it), so the last two
 * exist for source compatibility.
 */
#ifndef CCOIP_H
#define CCOIP_H

#define CCOIP_PROTOCOL_PORT_MASTER 48148
#define CCOIP_PROTOCOL_PORT_SHARED_STATE 48149
#define CCOIP_PROTOCOL_PORT_P2P 48150
#define CCOIP_PROTOCOL_PORT_BANDWIDTH_BENCHMARK 48151

#endif
