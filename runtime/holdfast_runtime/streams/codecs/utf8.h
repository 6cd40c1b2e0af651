/* Characters of UTF-8, for the readers of records. */

#pragma once

#include <stdint.h>

/* The size of a character that is not ASCII, 0 if it is not UTF-8. */
static inline int64_t character_size(const uint8_t *at, const uint8_t *end) {
    uint8_t lead = *at;
    int64_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || end - at < size) return 0;
    if (at[1] < (lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80)) return 0;
    if (at[1] > (lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF)) return 0;
    for (int64_t i = 2; i < size; i++)
        if ((at[i] & 0xC0) != 0x80) return 0;
    return size;
}
