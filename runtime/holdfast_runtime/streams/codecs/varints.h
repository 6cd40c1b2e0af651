/* Numbers of up to ten bytes, seven bits in each, the lowest first. */

#ifndef HOLDFAST_VARINTS_H
#define HOLDFAST_VARINTS_H

#include <stddef.h>
#include <stdint.h>

/* What follows a number; NULL if it is none. */
static const uint8_t *past_long_varint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    uint64_t number = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1) return NULL;
        number |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = number;
            return at;
        }
    }
    return NULL;
}

static inline const uint8_t *past_varint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    if (at < end && *at < 0x80) {
        *value = *at;
        return at + 1;
    }
    return past_long_varint(at, end, value);
}

#endif
