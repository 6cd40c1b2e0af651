/* Numbers and times that texts hold, as JSON writes them, for the readers of JSON and CSV: exact, or not at all.
 *
 * A number is its digits times a power of ten. Doubles are rounded from what that is exactly, in 128 bits, so that no
 * library is needed whose reading depends on a locale; what has more digits or a larger exponent is refused.
 */

#pragma once

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "a division must be rounded to a double at once");

struct number {
    uint64_t digits;
    int64_t exponent;
    bool negative;
    bool whole; /* neither a point nor an exponent */
    bool exact; /* no digit is lost */
};

static inline bool is_digit(uint8_t byte) { return (uint8_t)(byte - '0') < 10; }

static inline const uint8_t *past_digits(const uint8_t *at, const uint8_t *end, struct number *number) {
    for (; at < end && is_digit(*at); at++) {
        if (number->digits > (UINT64_MAX - 9) / 10) number->exact = false;
        else number->digits = number->digits * 10 + (uint64_t)(*at - '0');
    }
    return at;
}

static inline const uint8_t *past_number(const uint8_t *at, const uint8_t *end, struct number *number) {
    *number = (struct number){.negative = at < end && *at == '-', .whole = true, .exact = true};
    at += number->negative;
    if (at == end || !is_digit(*at)) return NULL;
    at = *at == '0' ? at + 1 : past_digits(at, end, number);
    if (at < end && *at == '.') {
        const uint8_t *point = at;
        at = past_digits(at + 1, end, number);
        if (at == point + 1) return NULL;
        number->whole = false;
        number->exponent = point + 1 - at;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        int64_t power = 0;
        at++;
        bool negative = at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        if (at == end || !is_digit(*at)) return NULL;
        for (; at < end && is_digit(*at); at++) {
            if (power > 999) number->exact = false;
            else power = power * 10 + (*at - '0');
        }
        number->whole = false;
        number->exponent += negative ? -power : power;
    }
    return at;
}

static inline bool integer_of(const struct number *number, int bits, int64_t *value) {
    uint64_t limit = 1ULL << (bits - 1);
    if (!number->whole || !number->exact || number->digits > limit - !number->negative) return false;
    *value = (int64_t)(number->negative ? 0 - number->digits : number->digits);
    return true;
}

#define MOST_FIVES 27

/* The digits times the power of ten, neither of them too large, rounded to this many bits, half to even: `significand`
 * times two to the `power`. */
static bool round_exactly(const struct number *number, int bits, uint64_t *significand, int64_t *power) {
    uint64_t fives = 1;
    if (!number->exact || number->digits == 0 || number->exponent < -MOST_FIVES || number->exponent > MOST_FIVES)
        return false;
    for (int64_t i = number->exponent < 0 ? -number->exponent : number->exponent; i > 0; i--) fives *= 5;
    int zeros = __builtin_clzll(number->digits);
    unsigned __int128 exact = number->digits << zeros;
    bool rest = false;
    *power = number->exponent - zeros;
    if (number->exponent >= 0) {
        exact *= fives;
    } else {
        exact <<= 64; /* at least 2^127, and `fives` is below 2^63: the quotient has more than 64 bits */
        rest = exact % fives != 0;
        exact /= fives;
        *power -= 64;
    }
    uint64_t high = (uint64_t)(exact >> 64);
    int less = (high ? 128 - __builtin_clzll(high) : 64) - bits;
    unsigned __int128 half = (unsigned __int128)1 << (less - 1), lost = exact & (2 * half - 1);
    *significand = (uint64_t)(exact >> less);
    *significand += lost > half || (lost == half && (rest || (*significand & 1)));
    *power += less;
    return true;
}

static bool double_of(const struct number *number, double *value) {
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t significand;
    int64_t power;
    if (number->exact && number->digits <= 1ULL << 53 && number->exponent >= -22 && number->exponent <= 22) {
        /* Both factors are doubles, so that rounding once is enough. */
        double digits = (double)number->digits;
        *value = number->exponent < 0 ? digits / tens[-number->exponent] : digits * tens[number->exponent];
    } else if (round_exactly(number, 53, &significand, &power)) {
        /* A significand that was rounded up to 2^53 carries into the exponent. */
        uint64_t pattern = ((uint64_t)(power + 52 + 1023) << 52) + (significand - (1ULL << 52));
        memcpy(value, &pattern, sizeof pattern);
    } else {
        return false;
    }
    if (number->negative) *value = -*value;
    return true;
}

static bool float_of(const struct number *number, float *value) {
    uint64_t significand;
    int64_t power;
    if (number->exact && number->digits == 0) {
        *value = 0;
    } else if (round_exactly(number, 24, &significand, &power) && power + 23 <= 126) {
        uint32_t pattern = ((uint32_t)(power + 23 + 127) << 23) + (uint32_t)(significand - (1ULL << 23));
        memcpy(value, &pattern, sizeof pattern);
    } else {
        return false;
    }
    if (number->negative) *value = -*value;
    return true;
}

#define MICROS_PER_SECOND 1000000LL
/* The years 1 to 9999. */
#define FIRST_SECOND -62135596800LL
#define END_SECOND 253402300800LL

/* Milliseconds since 1970 as microseconds. */
static inline bool micros_of(int64_t millis, int64_t *micros) {
    if (millis < FIRST_SECOND * 1000 || millis >= END_SECOND * 1000) return false;
    *micros = millis * 1000;
    return true;
}

/* The number that these digits are, negative if there is something else. */
static inline int32_t small_number(const uint8_t *at, int size) {
    int32_t sum = 0;
    for (int i = 0; i < size; i++) sum = is_digit(at[i]) && sum >= 0 ? sum * 10 + (at[i] - '0') : -1;
    return sum;
}

/* `2024-01-31` as days since 1970. */
static bool date_of(const uint8_t *at, int64_t size, int32_t *days) {
    static const int8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (size != 10 || at[4] != '-' || at[7] != '-') return false;
    int32_t year = small_number(at, 4), month = small_number(at + 5, 2), day = small_number(at + 8, 2);
    if (year < 1 || month < 1 || month > 12 || day < 1) return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day > lengths[month - 1] + (leap && month == 2)) return false;
    /* Years begin in March, so that a leap day ends its year. */
    int32_t since = month > 2 ? month - 3 : month + 9, years = month > 2 ? year : year - 1;
    *days = years * 365 + years / 4 - years / 100 + years / 400 + (153 * since + 2) / 5 + day - 719469;
    return true;
}

/* `+01:00` as minutes; `Z` and nothing are 0. */
static bool zone_of(const uint8_t *at, int64_t size, int32_t *minutes) {
    *minutes = 0;
    if (size == 0 || (size == 1 && *at == 'Z')) return true;
    if (size != 6 || (*at != '+' && *at != '-') || at[3] != ':') return false;
    int32_t hour = small_number(at + 1, 2), minute = small_number(at + 4, 2);
    *minutes = (*at == '-' ? -1 : 1) * (hour * 60 + minute);
    return (uint32_t)hour <= 23 && (uint32_t)minute <= 59;
}

/* `2024-01-31T12:00:00.123456Z` as microseconds since 1970; with a blank for the T, fewer digits or more, other zones. */
static bool time_of(const uint8_t *at, int64_t size, int64_t *micros) {
    int32_t days, zone;
    if (size < 19 || (at[10] != 'T' && at[10] != ' ') || at[13] != ':' || at[16] != ':') return false;
    int32_t hour = small_number(at + 11, 2), minute = small_number(at + 14, 2), second = small_number(at + 17, 2);
    if ((uint32_t)hour > 23 || (uint32_t)minute > 59 || (uint32_t)second > 59 || !date_of(at, 10, &days)) return false;
    const uint8_t *end = at + size;
    int64_t fraction = 0, unit = MICROS_PER_SECOND;
    at += 19;
    if (at < end && *at == '.') {
        if (++at == end || !is_digit(*at)) return false;
        for (; at < end && is_digit(*at); at++) {
            unit /= 10; /* 0 beyond microseconds, which are cut off */
            fraction += unit * (*at - '0');
        }
    }
    if (!zone_of(at, end - at, &zone)) return false;
    *micros = ((int64_t)days * 86400 + hour * 3600 + (minute - zone) * 60 + second) * MICROS_PER_SECOND + fraction;
    return *micros >= FIRST_SECOND * MICROS_PER_SECOND && *micros < END_SECOND * MICROS_PER_SECOND;
}
