/* Texts of numbers, times and bytes, for the writers of JSON and CSV: text_scalars.h reads them back.
 *
 * Each function returns where the text ends. Whoever calls has room for LONGEST_TEXT bytes, for LONGEST_DECIMAL, or for
 * four letters for each three bytes.
 */

#pragma once

#include <math.h>

#include "text_scalars.h"

#define LONGEST_TEXT 27    /* a time with six digits behind the second, and a Z */
#define LONGEST_DECIMAL 43 /* 38 digits, a sign, a point, and an exponent of two digits */

static inline uint8_t *put(uint8_t *out, const void *text, int64_t size) {
    if (size > 0) memcpy(out, text, (size_t)size); /* of no bytes there may be no address */
    return out + size;
}

/* So many digits, with zeros before. */
static inline uint8_t *put_digits(uint8_t *out, uint64_t number, int digits) {
    for (int i = digits - 1; i >= 0; i--, number /= 10) out[i] = (uint8_t)('0' + number % 10);
    return out + digits;
}

static inline uint8_t *put_whole(uint8_t *out, int64_t number) {
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    int digits = 1;
    for (uint64_t tens = rest; tens >= 10; tens /= 10) digits++;
    if (number < 0) *out++ = '-';
    return put_digits(out, rest, digits);
}

#define MOST_DECIMALS 6
#define WHOLE_DIGITS 1e9

/* A number of few digits in its shortest form; NULL if it has more. */
static uint8_t *put_double(uint8_t *out, double number) {
    static const double tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6};
    if (isnan(number)) return put(out, "NaN", 3);
    if (isinf(number)) return number > 0 ? put(out, "Infinity", 8) : put(out, "-Infinity", 9);
    double size = fabs(number);
    if (size >= WHOLE_DIGITS) return NULL;
    for (int decimals = 0; decimals <= MOST_DECIMALS; decimals++) {
        int64_t digits = (int64_t)(size * tens[decimals] + 0.5);
        if ((double)digits / tens[decimals] != size) continue;
        if (signbit(number)) *out++ = '-';
        int64_t scale = (int64_t)tens[decimals];
        out = put_whole(out, digits / scale);
        if (!decimals) return out;
        *out++ = '.';
        return put_digits(out, (uint64_t)(digits % scale), decimals);
    }
    return NULL;
}

#define MOST_DIGITS 39 /* that 16 bytes can be */
#define SMALLEST_PLAIN -6

/* 16 bytes as a number with so many digits behind its point, with an exponent if it is below a millionth. */
static uint8_t *put_decimal(uint8_t *out, const uint8_t *bytes, int64_t scale) {
    __int128 value;
    memcpy(&value, bytes, 16);
    unsigned __int128 rest = value < 0 ? 0 - (unsigned __int128)value : (unsigned __int128)value;
    uint8_t digits[MOST_DIGITS], *first = digits + MOST_DIGITS;
    for (; rest >> 64; rest /= 10) *--first = (uint8_t)('0' + (int)(rest % 10));
    uint64_t low = (uint64_t)rest;
    do *--first = (uint8_t)('0' + low % 10);
    while (low /= 10);
    int64_t count = digits + MOST_DIGITS - first, exponent = count - 1 - scale, whole = count - scale;
    if (value < 0) *out++ = '-';
    if (scale > 0 && exponent < SMALLEST_PLAIN) {
        *out++ = *first;
        if (count > 1) *out++ = '.';
        out = put(out, first + 1, count - 1);
        return put_whole(put(out, "E", 1), exponent);
    }
    if (scale == 0) return put(out, first, count);
    if (whole > 0) {
        out = put(out, first, whole);
        *out++ = '.';
        return put(out, first + whole, scale);
    }
    out = put(out, "0.", 2);
    for (; whole < 0; whole++) *out++ = '0';
    return put(out, first, count);
}

static uint8_t *put_base64(uint8_t *out, const uint8_t *at, int64_t size) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (; size > 0; at += 3, size -= 3) {
        uint32_t bits = (uint32_t)at[0] << 16 | (size > 1 ? (uint32_t)at[1] << 8 : 0) | (size > 2 ? at[2] : 0);
        for (int i = 0; i < 4; i++) *out++ = i <= size ? (uint8_t)letters[bits >> (18 - 6 * i) & 63] : '=';
    }
    return out;
}

/* Days since 1970 as `2024-01-31`; NULL beyond the years 1 to 9999. */
static uint8_t *put_date(uint8_t *out, int64_t days) {
    if (days < FIRST_SECOND / 86400 || days >= END_SECOND / 86400) return NULL;
    /* Since March of the year 0, so that a leap day ends its year, and a year of four hundred its cycle. */
    int64_t since = days + 719468, cycle = since / 146097, in_cycle = since % 146097;
    int64_t years = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
    int64_t in_year = in_cycle - (365 * years + years / 4 - years / 100);
    int64_t months = (5 * in_year + 2) / 153, month = months < 10 ? months + 3 : months - 9;
    out = put_digits(out, (uint64_t)(cycle * 400 + years + (month <= 2)), 4);
    *out++ = '-';
    out = put_digits(out, (uint64_t)month, 2);
    *out++ = '-';
    return put_digits(out, (uint64_t)(in_year - (153 * months + 2) / 5 + 1), 2);
}

/* Microseconds since 1970 as `2024-01-31T12:00:00.123`, with six digits if they are needed. */
static uint8_t *put_time(uint8_t *out, int64_t micros) {
    int64_t day = 86400 * MICROS_PER_SECOND, days = micros / day - (micros % day < 0), rest = micros - days * day;
    out = put_date(out, days);
    if (out == NULL) return NULL;
    int64_t seconds = rest / MICROS_PER_SECOND, fraction = rest % MICROS_PER_SECOND;
    *out++ = 'T';
    out = put_digits(out, (uint64_t)(seconds / 3600), 2);
    *out++ = ':';
    out = put_digits(out, (uint64_t)(seconds / 60 % 60), 2);
    *out++ = ':';
    out = put_digits(out, (uint64_t)(seconds % 60), 2);
    *out++ = '.';
    return fraction % 1000 ? put_digits(out, (uint64_t)fraction, 6) : put_digits(out, (uint64_t)(fraction / 1000), 3);
}
