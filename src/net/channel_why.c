/* Reasons why a channel has ended. */
#include "net/channel.h"

const char *pccl_channel_why(const struct pccl_channel *channel)
{
    int error = channel->ended ? channel->ended : channel->failed;
    switch (error) {
    case UV_EOF:
        return channel->secure && pccl_secure_was_cut(channel->secure)
                   ? "the connection was cut without a closing message"
                   : "closed by the other side";
    case UV_ENOMEM: return pccl_status_text(PCCL_MEMORY);
    case UV_ENOBUFS: return "the other side does not read the data sent to it";
    case UV_EPROTO: return channel->secure ? pccl_secure_why(channel->secure) : uv_strerror(error);
    default: return uv_strerror(error);
    }
}

enum pccl_link_end pccl_channel_evidence(const struct pccl_channel *channel)
{
    switch (channel->ended ? channel->ended : channel->failed) {
    case UV_ENOMEM:
    case UV_ENOBUFS: return 0;
    case UV_ETIMEDOUT:
    case UV_EHOSTUNREACH:
    case UV_ENETUNREACH:
    case UV_ENETDOWN: return PCCL_LINK_SILENT;
    default: return PCCL_LINK_CLOSED;
    }
}
