/* The program that an Avro schema's records are read or written by, for avro_records.c and avro_values.c: a tree of
 * nodes that refer to each other by number, which holdfast.planning.types.avro makes, and compiled_program.py lays out.
 */

#include "../cell_kinds.h"
#include "../powers_of_ten.h"

/* Whoever changes a struct here, or a function of either file, counts this up, and LOOPS_VERSION of
 * compiled_program.py with it. */
#define LOOPS_VERSION 3

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "Avro and Arrow have the lowest byte first");
_Static_assert(sizeof(__int128) == 16, "a decimal has 16 bytes");

/* What the bytes at hand are; the numbers are those of program.py. */
enum op {
    OP_NULL,
    OP_BOOLEAN,
    OP_INT,
    OP_LONG,
    OP_FLOAT,
    OP_DOUBLE,
    OP_BYTES,
    OP_FIXED,
    OP_ENUM,
    OP_RECORD,
    OP_ARRAY,
    OP_MAP,
    OP_UNION,
    OP_MISFIT,
    OP_CONSTANT,
    OP_ISO_TIME,
    OP_ISO_DATE,
    OP_TEXT_DECIMAL,
    OP_OWN_SCALE,
};

struct node {
    int64_t op;
    int64_t cell; /* -1 if no column has its values */
    const int32_t *inner;
    int64_t inner_count;
    const int32_t *absent; /* cells inside of its cell that get nulls */
    int64_t absent_count;
    const struct text *symbols;
    int64_t symbol_count;
    struct text constant;
    int64_t factor;
    int64_t size;
    int64_t branch;
    int64_t null_branch;
};

static inline int64_t floor_quotient(int64_t value, int64_t divisor) {
    int64_t quotient = value / divisor;
    return quotient - (value % divisor < 0);
}

/* Times another unit: a factor below 0 divides. */
static inline bool scaled(int64_t value, int64_t factor, int64_t *result) {
    if (factor > 0) return !__builtin_mul_overflow(value, factor, result);
    *result = floor_quotient(value, -factor);
    return true;
}

int32_t holdfast_loops_version(void) { return LOOPS_VERSION; }

void holdfast_free_memory(void *memory) { free(memory); }
