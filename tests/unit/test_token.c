/* The text of tokens: each wrong, missing or added character is refused; texts of former versions are read. */
#include "unit.h"

#include "core/token.h"

#include <stdio.h>
#include <string.h>

static const char unchecked[] = "pccl1.AAECAwQFBgcICQoLDA0ODw.EBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8";
static const char checked[] = "pccl2.AAECAwQFBgcICQoLDA0ODw.EBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8";

static void fill(struct pccl_token *token)
{
    *token = (struct pccl_token){.checked = true};
    for (uint8_t i = 0; i < PCCL_PIN_BYTES; i++)
        token->pin[i] = i;
    for (uint8_t i = 0; i < PCCL_SECRET_BYTES; i++)
        token->secret.bytes[i] = (uint8_t)(PCCL_PIN_BYTES + i);
}

static bool is_that(const struct pccl_token *a, const struct pccl_token *b)
{
    return memcmp(a->pin, b->pin, sizeof a->pin) == 0 && memcmp(&a->secret, &b->secret, sizeof a->secret) == 0;
}

TEST(text_of_today)
{
    struct pccl_token token, again;
    char text[PCCL_TOKEN_TEXT + 1], spaced[PCCL_TOKEN_TEXT + 8];
    fill(&token);
    pccl_token_write(&token, text);
    assert_int_equal(strlen(text), PCCL_TOKEN_TEXT);
    assert_memory_equal(text, checked, sizeof checked - 2); /* the last letter has bits of the checksum, too */
    (void)snprintf(spaced, sizeof spaced, " \n%s\r\n", text);
    assert_null(pccl_token_read(spaced, &again));
    assert_true(again.checked && is_that(&token, &again));
}

TEST(text_of_yesterday)
{
    struct pccl_token token, again;
    fill(&token);
    assert_null(pccl_token_read(unchecked, &again));
    assert_true(!again.checked && is_that(&token, &again));
    assert_non_null(pccl_token_read(checked, &again)); /* its name alone makes no checksum */
}

/* Each character as each other one of the printable ones. */
TEST(one_character_is_wrong)
{
    struct pccl_token token;
    char text[PCCL_TOKEN_TEXT + 1];
    fill(&token);
    pccl_token_write(&token, text);
    for (uint32_t i = 0; i < PCCL_TOKEN_TEXT; i++) {
        char right = text[i];
        for (char wrong = 1; wrong < 127; wrong++) {
            text[i] = wrong;
            assert_true((pccl_token_read(text, &token) == NULL) == (wrong == right));
        }
        text[i] = right;
    }
}

TEST(characters_are_missing_or_added)
{
    struct pccl_token token;
    char text[PCCL_TOKEN_TEXT + 1], other[PCCL_TOKEN_TEXT + 3];
    fill(&token);
    pccl_token_write(&token, text);
    for (uint32_t i = 0; i < PCCL_TOKEN_TEXT; i++) {
        (void)snprintf(other, sizeof other, "%.*s%s", (int)i, text, text + i + 1);
        assert_non_null(pccl_token_read(other, &token));
        (void)snprintf(other, sizeof other, "%.*s", (int)i, text);
        assert_non_null(pccl_token_read(other, &token));
        (void)snprintf(other, sizeof other, "%.*sA%s", (int)i, text, text + i);
        assert_non_null(pccl_token_read(other, &token));
        if (i == 0 || text[i] == text[i - 1])
            continue;
        (void)snprintf(other, sizeof other, "%s", text);
        other[i] = text[i - 1];
        other[i - 1] = text[i];
        assert_non_null(pccl_token_read(other, &token));
    }
    (void)snprintf(other, sizeof other, "%s A", text);
    assert_non_null(pccl_token_read(other, &token));
}

TEST(says_what_is_wrong)
{
    struct pccl_token token;
    assert_non_null(strstr(pccl_token_read("password", &token), "not a master's token"));
    assert_non_null(strstr(pccl_token_read(checked, &token), "damaged"));
}
