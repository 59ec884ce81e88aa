/*
 * Any bytes: once the head of a request is judged, more bytes change nothing; the path of an accepted request can be
 * printed, and every answer fits.
 */
#include "fuzz.h"

#include "ops/http.h"

#include <string.h>

struct picture {
    enum pccl_http_reading reading;
    uint16_t code;
    struct pccl_http_request request;
};

/*
 * Checks that values lie within the bytes read, that a request of ours has a host and a matching origin, and that a
 * command has the token.
 */
static void look_at_values(const struct pccl_http_request *request, const char *bytes, size_t length)
{
    static const char *const names[] = {"master"};
    const struct pccl_http_value *values[] = {&request->host, &request->origin, &request->authorization,
                                              &request->query};
    for (size_t i = 0; i < PCCL_COUNT_OF(values); i++)
        EXPECT(values[i]->bytes == NULL || (values[i]->bytes >= bytes && values[i]->length <= length &&
                                            values[i]->bytes + values[i]->length <= bytes + length));
    if (pccl_http_is_ours(request, false, names, 1))
        EXPECT(request->host.length > 0 &&
               (request->origin.bytes == NULL || request->origin.length == request->host.length + strlen("http://")));
    if (pccl_http_is_ours(request, true, names, 1))
        EXPECT(request->host.length > 0 &&
               (request->origin.bytes == NULL || request->origin.length == request->host.length + strlen("https://")));
    if (pccl_http_has_token(request, "0123456789abcdef"))
        EXPECT(request->authorization.length == strlen("Bearer 0123456789abcdef"));
}

static struct picture read_some(const char *bytes, size_t length)
{
    struct picture picture = {.code = 0};
    char *exact = malloc(length > 0 ? length : 1); /* exact size, so that a sanitizer detects reads beyond it */
    EXPECT(exact != NULL);
    memcpy(exact, bytes, length);
    picture.reading = pccl_http_read(exact, length, &picture.request, &picture.code);
    if (picture.reading == PCCL_HTTP_REQUEST)
        look_at_values(&picture.request, exact, length);
    free(exact);
    picture.request.host = picture.request.origin = picture.request.authorization = picture.request.query =
        (struct pccl_http_value){0};
    return picture;
}

static void check(const struct picture *picture, size_t length)
{
    if (picture->reading == PCCL_HTTP_REQUEST) {
        const char *path = picture->request.path;
        EXPECT(path[0] == '/' && strlen(path) <= PCCL_HTTP_PATH_MAX);
        for (; *path != '\0'; path++)
            EXPECT(*path > ' ' && *path <= '~' && *path != '?');
    }
    EXPECT(length < PCCL_HTTP_HEAD_MAX || picture->reading != PCCL_HTTP_MORE);
    if (picture->reading == PCCL_HTTP_BAD) {
        char head[PCCL_HTTP_ANSWER_MAX];
        size_t written = pccl_http_write_head(picture->code, "text/plain; charset=utf-8", UINT64_MAX, head);
        EXPECT(picture->code >= 400 && written > 4 && memcmp(head + written - 4, "\r\n\r\n", 4) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct picture judged = {.reading = PCCL_HTTP_MORE};
    if (size > 2 * PCCL_HTTP_HEAD_MAX)
        return 0;
    for (size_t length = 0; length <= size; length += length < 300 ? 1 : 1 + size / 16) {
        struct picture now = read_some((const char *)data, length);
        check(&now, length);
        if (judged.reading != PCCL_HTTP_MORE && length <= PCCL_HTTP_HEAD_MAX) {
            EXPECT(now.reading == judged.reading && now.code == judged.code);
            EXPECT(now.request.head == judged.request.head && strcmp(now.request.path, judged.request.path) == 0);
        }
        judged = now;
    }
    return 0;
}
