/* The texts that JSON is made of, for the reader of its records: blanks, words, strings, and values that are passed
 * over.
 *
 * Must not allocate or wait, nor read beyond a record's last byte: records come from anybody.
 */

#pragma once

#include "text_scalars.h"
#include "utf8.h"

/* The first special byte of eight is found by the lowest bit that is set. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lowest byte of a word must be its first");

/* Arrays and objects that may be open at once in a field that no column has. */
#define DEEPEST 64

/* Each `past_` returns what follows the thing it is named after, NULL if there is no such thing. */

static inline const uint8_t *past_blanks(const uint8_t *at, const uint8_t *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) at++;
    return at;
}

static inline const uint8_t *past_word(const uint8_t *at, const uint8_t *end, const char *word, int64_t size) {
    return end - at >= size && memcmp(at, word, (size_t)size) == 0 ? at + size : NULL;
}

/* The number behind `\u`, -1 if there is none. */
static inline int32_t code_unit(const uint8_t *at, const uint8_t *end) {
    /* One more than the digit that a letter is. */
    static const uint8_t digits[256] = {
        ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
        ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
        ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
    };
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
    int32_t first = digits[at[2]], second = digits[at[3]], third = digits[at[4]], fourth = digits[at[5]];
    if (first == 0 || second == 0 || third == 0 || fourth == 0) return -1;
    return (first - 1) << 12 | (second - 1) << 8 | (third - 1) << 4 | (fourth - 1);
}

/* Goes past an escape, and returns the size of the UTF-8 it stands for, at most 4; 0 if it is none, or half a pair. */
static inline int64_t unescape(const uint8_t **at, const uint8_t *end, uint8_t *out) {
    static const uint8_t meanings[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    if (end - *at >= 2 && meanings[(*at)[1]]) {
        out[0] = meanings[(*at)[1]];
        *at += 2;
        return 1;
    }
    int32_t code = code_unit(*at, end);
    if (code < 0) return 0;
    *at += 6;
    if (code >= 0xD800 && code < 0xE000) {
        int32_t low = code_unit(*at, end);
        if (code >= 0xDC00 || low < 0xDC00 || low >= 0xE000) return 0;
        *at += 6;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    int64_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int64_t i = size - 1; i > 0; i--, code >>= 6) out[i] = (uint8_t)(0x80 | (code & 0x3F));
    out[0] = (uint8_t)((0xF0 << (4 - size)) | code);
    return size;
}

#define EACH(byte) ((byte) * 0x0101010101010101ULL)

/* A string behind its first quote; `size` gets its bytes without escapes. */
static inline const uint8_t *past_string(const uint8_t *at, const uint8_t *end, int64_t *size) {
    const uint8_t *start = at;
    int64_t saved = 0;
    for (;;) {
        for (uint64_t word; end - at >= 8; at += 8) {
            memcpy(&word, at, 8);
            uint64_t quotes = word ^ EACH('"'), slashes = word ^ EACH('\\');
            uint64_t special = (word | (word - EACH(0x20)) | (quotes - EACH(1)) | (slashes - EACH(1))) & EACH(0x80);
            if (special) {
                at += __builtin_ctzll(special) / 8;
                break;
            }
        }
        if (at == end || *at < 0x20) return NULL;
        if (*at == '"') {
            *size = at - start - saved;
            return at + 1;
        }
        if (*at == '\\') {
            do {
                uint8_t meaning[4];
                const uint8_t *escape = at;
                int64_t unescaped = unescape(&at, end, meaning);
                if (unescaped == 0) return NULL;
                saved += at - escape - unescaped;
            } while (at < end && *at == '\\');
        } else if (*at < 0x80) {
            at++;
        } else {
            do {
                int64_t character = character_size(at, end);
                if (character == 0) return NULL;
                at += character;
            } while (at < end && *at >= 0x80);
        }
    }
}

/* What is between a name and its value. */
static inline const uint8_t *past_colon(const uint8_t *at, const uint8_t *end) {
    at = past_blanks(at, end);
    return at == end || *at != ':' ? NULL : past_blanks(at + 1, end);
}

/* Whether a comma is behind a value: then `at` gets where the next one begins, else where what holds them is
 * closed; NULL if neither is there. */
static inline bool goes_on(const uint8_t **at, const uint8_t *end, uint8_t close) {
    *at = past_blanks(*at, end);
    if (*at < end && **at == ',') {
        *at = past_blanks(*at + 1, end);
        return true;
    }
    if (*at == end || **at != close) *at = NULL;
    return false;
}

/* Any value, and the blanks behind it: what is skipped must be JSON, too. */
static const uint8_t *past_value(const uint8_t *at, const uint8_t *end, int deeper) {
    struct number number;
    int64_t size;
    if (at == end) return NULL;
    uint8_t close = *at == '{' ? '}' : ']';
    switch (*at) {
    case '"': at = past_string(at + 1, end, &size); break;
    case 'n': at = past_word(at, end, "null", 4); break;
    case 't': at = past_word(at, end, "true", 4); break;
    case 'f': at = past_word(at, end, "false", 5); break;
    case '{':
    case '[':
        if (deeper == 0) return NULL;
        at = past_blanks(at + 1, end);
        for (bool more = at == end || *at != close; more; more = goes_on(&at, end, close)) {
            if (close == '}') {
                if (at == end || *at != '"' || (at = past_string(at + 1, end, &size)) == NULL) return NULL;
                at = past_colon(at, end);
                if (at == NULL) return NULL;
            }
            at = past_value(at, end, deeper - 1);
            if (at == NULL) return NULL;
        }
        if (at == NULL) return NULL;
        at++;
        break;
    default: at = past_number(at, end, &number);
    }
    return at == NULL ? NULL : past_blanks(at, end);
}

/* A string without its quotes, up to where what it stands for ends. */
static inline void unescape_all(const uint8_t *at, const uint8_t *end, uint8_t *out, const uint8_t *out_end) {
    while (out < out_end) {
        if (*at == '\\') {
            out += unescape(&at, end, out);
        } else if (out_end - out < 8) {
            *out++ = *at++;
        } else { /* as many bytes are left in the record, too */
            uint64_t word;
            memcpy(&word, at, 8);
            memcpy(out, &word, 8);
            uint64_t slashes = word ^ EACH('\\'), special = (slashes - EACH(1)) & ~slashes & EACH(0x80);
            int64_t plain = special ? __builtin_ctzll(special) / 8 : 8;
            at += plain;
            out += plain;
        }
    }
}
