/* The program that Protobuf messages are read or written by, for protobuf_records.c and protobuf_values.c: a tree of
 * nodes that refer to each other by number, which holdfast.planning.types.protobuf makes, and compiled_program.py lays
 * out.
 */

#include "../cell_kinds.h"

/* Whoever changes a struct here, or a function of either file, counts this up, and LOOPS_VERSION of
 * compiled_program.py with it. */
#define LOOPS_VERSION 1
#define FIRST_SECOND (-62135596800LL)
#define LAST_SECOND 253402300799LL
#define LAST_NANO 999999999

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "Protobuf and Arrow have the lowest byte first");

/* What the bytes of a value are; the numbers are those of program.py. */
enum op {
    OP_BOOL,
    OP_INT32,
    OP_INT64,
    OP_UINT32,
    OP_UINT64,
    OP_SINT32,
    OP_SINT64,
    OP_FIXED32,
    OP_FIXED64,
    OP_SFIXED32,
    OP_SFIXED64,
    OP_FLOAT,
    OP_DOUBLE,
    OP_STRING,
    OP_BYTES,
    OP_ENUM,
    OP_MESSAGE,
    OP_TIMESTAMP,
    OP_WRAPPER,
};

/* How often a field stands in a message; the numbers are those of program.py. */
enum shape { IMPLICIT, OPTIONAL, REPEATED, PAIRS };

/* How the bytes of a field end. */
enum wire { VARINT, EIGHT_BYTES, SIZED, GROUP, END_OF_GROUP, FOUR_BYTES };

struct node {
    int64_t op;
    int64_t cell;
    int64_t number;
    int64_t wire; /* of one value */
    int64_t shape;
    int64_t packed;
    int64_t choice;
    const int32_t *inner;
    int64_t inner_count;
    const int32_t *absent; /* cells inside of its cell that get nulls */
    int64_t absent_count;
    const struct text *symbols;
    const int32_t *numbers;
    int64_t symbol_count;
};

int32_t holdfast_loops_version(void) { return LOOPS_VERSION; }

void holdfast_free_memory(void *memory) { free(memory); }
