/* Powers of ten that decimals of up to 38 digits need. */

#pragma once

#include <stdint.h>

static inline unsigned __int128 power_of_ten(int64_t exponent) {
    static const uint64_t powers[] = {
        1ULL,
        10ULL,
        100ULL,
        1000ULL,
        10000ULL,
        100000ULL,
        1000000ULL,
        10000000ULL,
        100000000ULL,
        1000000000ULL,
        10000000000ULL,
        100000000000ULL,
        1000000000000ULL,
        10000000000000ULL,
        100000000000000ULL,
        1000000000000000ULL,
        10000000000000000ULL,
        100000000000000000ULL,
        1000000000000000000ULL,
        10000000000000000000ULL,
    };
    return exponent < 20 ? powers[exponent] : (unsigned __int128)powers[19] * powers[exponent - 19];
}
