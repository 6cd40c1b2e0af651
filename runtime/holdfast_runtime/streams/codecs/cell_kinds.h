/* Columns and their parts, called cells, as the readers and writers of records in C have them: what they hold, and bits.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What a cell holds, which is a column or a part of one; the numbers are those of codecs/compiled_cells.py. */
enum kind { NOTHING, BOOLEAN, WHOLE, FLOAT, DOUBLE, DECIMAL, TEXT, BINARY, STRUCT, LIST, MAP };

struct text {
    const uint8_t *start;
    int64_t size;
};

static inline void set_bit(uint8_t *bits, int64_t at, bool on) {
    uint8_t bit = (uint8_t)(1u << (at & 7));
    bits[at >> 3] = (uint8_t)(on ? bits[at >> 3] | bit : bits[at >> 3] & ~bit);
}

static inline bool bit_of(const uint8_t *bits, int64_t at) { return bits[at >> 3] >> (at & 7) & 1; }
