/* The loops over single rows that stateful steps need, outside of Python and without the GIL: hashing keys, sorting
 * hashes, looking them up in each other, comparing the bytes of keys.
 *
 * Each has a twin in numpy that gives the same bits (key_columns.py, sorted_hashes.py); the twins say what is computed and why.
 * Built by hatch_build.py, called by loops.py.
 *
 * Must not allocate, wait or check: sizes are measured first, buffers are the caller's.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whoever changes a function below counts this up, and LOOPS_VERSION of loops.py with it. */
#define LOOPS_VERSION 2

#define GOLDEN 0x9E3779B97F4A7C15ULL
#define FIRST 0xFF51AFD7ED558CCDULL
#define SECOND 0xC4CEB9FE1A85EC53ULL
#define NOTHING 0x6E756C6C6E756C6CULL

#define RADIX_BITS 11
#define RADIX (1 << RADIX_BITS)
#define PASSES 6

int32_t holdfast_loops_version(void) { return LOOPS_VERSION; }

static inline uint64_t mixed(uint64_t state, uint64_t word) {
    uint64_t x = (state * GOLDEN) ^ word;
    x ^= x >> 33;
    x *= FIRST;
    x ^= x >> 33;
    x *= SECOND;
    return x ^ (x >> 33);
}

void holdfast_hash_words(uint64_t *state, const uint64_t *words, const uint8_t *valid, int64_t rows) {
    if (valid == NULL) {
        for (int64_t i = 0; i < rows; i++) state[i] = mixed(state[i], words[i]);
    } else {
        for (int64_t i = 0; i < rows; i++) state[i] = mixed(state[i], valid[i] ? words[i] : NOTHING);
    }
}

static inline uint64_t digest(const uint8_t *bytes, int64_t length) {
    uint64_t sum = (uint64_t)length * GOLDEN, word;
    for (; length >= 8; bytes += 8, length -= 8) {
        memcpy(&word, bytes, 8);
        sum = (sum ^ word) * FIRST;
        sum ^= sum >> 32;
    }
    if (length) {
        word = 0;
        memcpy(&word, bytes, (size_t)length);
        sum = (sum ^ word) * FIRST;
        sum ^= sum >> 32;
    }
    return sum;
}

void holdfast_hash_bytes(uint64_t *state, const int64_t *bounds, const uint8_t *bytes, const uint8_t *valid,
                         int64_t rows) {
    for (int64_t i = 0; i < rows; i++) {
        int there = valid == NULL || valid[i];
        state[i] = mixed(state[i], there ? digest(bytes + bounds[i], bounds[i + 1] - bounds[i]) : NOTHING);
    }
}

/* The stable order of hashes: six passes of a radix sort, without those in which all hashes agree. `order` gets the
 * rows, `sorted` their hashes; `spare_order` and `spare_sorted` are as large. */
void holdfast_order(const uint64_t *hashes, int64_t rows, uint32_t *order, uint64_t *sorted, uint32_t *spare_order,
                    uint64_t *spare_sorted) {
    static __thread uint32_t counts[PASSES][RADIX];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < rows; i++) {
        for (int pass = 0; pass < PASSES; pass++) counts[pass][(hashes[i] >> (pass * RADIX_BITS)) & (RADIX - 1)]++;
        order[i] = (uint32_t)i;
        sorted[i] = hashes[i];
    }
    uint64_t *from = sorted, *to = spare_sorted;
    uint32_t *rows_from = order, *rows_to = spare_order;
    for (int pass = 0; pass < PASSES && rows; pass++) {
        int shift = pass * RADIX_BITS;
        uint32_t *count = counts[pass];
        if (count[(from[0] >> shift) & (RADIX - 1)] == (uint32_t)rows) continue;
        uint32_t at = 0;
        for (int digit = 0; digit < RADIX; digit++) {
            uint32_t many = count[digit];
            count[digit] = at;
            at += many;
        }
        for (int64_t i = 0; i < rows; i++) {
            uint32_t place = count[(from[i] >> shift) & (RADIX - 1)]++;
            to[place] = from[i];
            rows_to[place] = rows_from[i];
        }
        uint64_t *swapped = from;
        uint32_t *rows_swapped = rows_from;
        from = to, to = swapped;
        rows_from = rows_to, rows_to = rows_swapped;
    }
    if (from != sorted) {
        memcpy(sorted, from, (size_t)rows * sizeof *sorted);
        memcpy(order, rows_from, (size_t)rows * sizeof *order);
    }
}

/* The first place from `low` on whose hash is not below this one, or `end`. Steps double, so a few wanted in many cost
 * their logarithm, and as many wanted as there are cost one walk. */
static inline int64_t first_from(const uint64_t *sorted, int64_t low, int64_t end, uint64_t hash) {
    int64_t step = 1, high = low;
    while (high < end && sorted[high] < hash) {
        low = high + 1;
        high += step;
        step *= 2;
    }
    if (high > end) high = end;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sorted[middle] < hash) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Where each wanted hash begins and ends in `sorted`; both ascend. */
void holdfast_find(const uint64_t *sorted, int64_t rows, const uint64_t *wanted, int64_t many, int64_t *begins,
                   int64_t *ends) {
    int64_t low = 0;
    for (int64_t i = 0; i < many; i++) {
        uint64_t hash = wanted[i];
        if (i && wanted[i - 1] == hash) {
            begins[i] = begins[i - 1];
            ends[i] = ends[i - 1];
            continue;
        }
        begins[i] = low = first_from(sorted, low, rows, hash);
        while (low < rows && sorted[low] == hash) low++;
        ends[i] = low;
    }
}

/* The places of `hashes` that hold a wanted one, and how many these are. Between `begins[i]` and `ends[i]` hashes ascend,
 * as the wanted ones do. */
void holdfast_places(const uint64_t *hashes, const int64_t *begins, const int64_t *ends, int64_t stretches,
                     const uint64_t *wanted, int64_t many, int64_t *places, int64_t *count) {
    int64_t all = 0;
    for (int64_t stretch = 0; stretch < stretches; stretch++) {
        int64_t low = begins[stretch], end = ends[stretch];
        for (int64_t i = 0; i < many && low < end; i++) {
            low = first_from(hashes, low, end, wanted[i]);
            while (low < end && hashes[low] == wanted[i]) places[all++] = low++;
        }
    }
    *count = all;
}

/* Whether the bytes of the rows `mine` of one column are those of the rows `theirs` of another. */
void holdfast_equal_bytes(const int64_t *my_bounds, const uint8_t *my_bytes, const int64_t *mine,
                          const int64_t *their_bounds, const uint8_t *their_bytes, const int64_t *theirs, int64_t pairs,
                          uint8_t *equal) {
    for (int64_t i = 0; i < pairs; i++) {
        int64_t a = mine[i], b = theirs[i], length = my_bounds[a + 1] - my_bounds[a];
        equal[i] = their_bounds[b + 1] - their_bounds[b] == length &&
                   memcmp(my_bytes + my_bounds[a], their_bytes + their_bounds[b], (size_t)length) == 0;
    }
}
