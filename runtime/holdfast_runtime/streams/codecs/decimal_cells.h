/* Decimals in cells, from their digits or from texts, for the readers of CSV and Avro: exact, or not at all. */

#pragma once

#include "powers_of_ten.h"
#include "record_cells.h"
#include "text_scalars.h"

#define MOST_DIGITS 38

/* A number whose digits are followed by so many zeros, which its column must have. */
static bool put_digits(struct reader *reader, struct cell *cell, __int128 value, int64_t more) {
    if (more < 0 || more > MOST_DIGITS || !has_room(reader, cell)) return false;
    __int128 limit = cell->precision < more ? 1 : (__int128)power_of_ten(cell->precision - more);
    if (value >= limit || value <= -limit) return false;
    value *= (__int128)power_of_ten(more);
    memcpy(cell->values + cell->rows * 16, &value, 16);
    keep_row(cell);
    return true;
}

/* Digits, and perhaps a point among them. */
static bool put_text_decimal(struct reader *reader, struct cell *cell, const uint8_t *at, const uint8_t *stop,
                             int64_t scale) {
    bool negative = at < stop && *at == '-';
    const uint8_t *start = at += negative, *point = NULL;
    unsigned __int128 value = 0;
    for (; at < stop; at++) {
        if (*at == '.' && point == NULL && at > start) point = at;
        else if (is_digit(*at) && at - start <= MOST_DIGITS) value = value * 10 + (unsigned)(*at - '0');
        else return false;
    }
    int64_t digits = at - start - (point != NULL), more = scale - (point == NULL ? 0 : at - point - 1);
    if (digits == 0 || digits > MOST_DIGITS || more < 0 || point == at - 1) return false;
    return put_digits(reader, cell, negative ? -(__int128)value : (__int128)value, more);
}
