/* Bytes in cells, from the base64 that JSON and CSV hold them as. */

#pragma once

#include "record_cells.h"

/* Four letters of base64 are three bytes. */
static bool put_base64(struct reader *reader, struct cell *cell, const uint8_t *at, const uint8_t *stop) {
    /* One more than the six bits that a letter is. */
    static const uint8_t digits[256] = {
        ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,  ['I'] = 9,
        ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18,
        ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27,
        ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36,
        ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45,
        ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54,
        ['2'] = 55, ['3'] = 56, ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63,
        ['/'] = 64,
    };
    if ((stop - at) % 4 != 0 || !has_room(reader, cell) || !has_content_room(reader, cell, (stop - at) / 4 * 3))
        return false;
    uint8_t *start = cell->content + cell->content_size, *out = start;
    for (; at < stop; at += 4) {
        int missing = stop - at == 4 && at[3] == '=' ? 1 + (at[2] == '=') : 0;
        uint32_t bits = 0;
        for (int i = 0; i < 4; i++) {
            uint8_t digit = i + missing >= 4 ? 1 : digits[at[i]];
            if (digit == 0) return false;
            bits = bits << 6 | (uint32_t)(digit - 1);
        }
        if (bits & ((1u << (8 * missing)) - 1)) return false; /* bits that no byte has */
        for (int i = 0; i < 3 - missing; i++) *out++ = (uint8_t)(bits >> (16 - 8 * i));
    }
    keep_content(cell, out - start);
    return true;
}
