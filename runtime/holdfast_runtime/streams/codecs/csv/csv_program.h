/* How lines of CSV are written, for csv_records.c and csv_lines.c: the columns in their order, what separates fields, and
 * what stands for null. compiled_program.py lays it out.
 */

#include "../cell_kinds.h"

/* Whoever changes a struct here, or a function of either file, counts this up, and LOOPS_VERSION of
 * compiled_program.py with it. */
#define LOOPS_VERSION 3

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lowest byte of a word must be its first");

/* What the text of a field is; the numbers are those of compiled_program.py. */
enum op {
    OP_NOTHING,
    OP_BOOLEAN,
    OP_WHOLE,
    OP_FLOAT,
    OP_DOUBLE,
    OP_DECIMAL,
    OP_TEXT,
    OP_BASE64,
    OP_DATE,
    OP_TIME,
    OP_ZONED_TIME,
    OP_MADE, /* of rows that are written: a text already, of a number */
};

struct column {
    int64_t op;
    int64_t scale; /* of a decimal */
};

/* The whole of it; there is one. */
struct node {
    const struct column *columns;
    int64_t column_count;
    int64_t delimiter;
    struct text null;
};

#define BYTE_ORDER_MARK "\xEF\xBB\xBF"
#define MARK_SIZE 3

int32_t holdfast_loops_version(void) { return LOOPS_VERSION; }

void holdfast_free_memory(void *memory) { free(memory); }
