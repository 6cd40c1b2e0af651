/* The writer of lines of CSV, outside of Python and without the GIL: rows of Arrow columns as texts, one behind another.
 *
 * A field is quoted only where it would be read as something else. Numbers of many digits come as texts that
 * compiled_writer.py has made.
 * Built by hatch_build.py, called by compiled_writer.py.
 *
 * Must not wait, nor write more than it has made room for, nor give reasons: plain_writer.py does.
 */

#include "csv_program.h"
#include "../row_cells.h"
#include "../scalar_texts.h"

static inline const int32_t *ends_of(const struct cell *cell) { return (const int32_t *)cell->values + cell->offset; }

static inline bool has_content(const struct column *column) {
    return column->op == OP_TEXT || column->op == OP_MADE || column->op == OP_BASE64;
}

/* How many bytes so many rows need at most: a text in quotes with all of it doubled, or whatever else is longest. */
static int64_t most_bytes(const struct node *node, const struct cell *cells, int64_t rows) {
    int64_t longest = node->null.size > LONGEST_DECIMAL ? node->null.size : LONGEST_DECIMAL, size = 0;
    for (int64_t i = 0; i < node->column_count; i++) {
        const struct cell *cell = cells + 1 + i;
        size += rows * (longest + 3); /* quotes and a delimiter */
        if (has_content(node->columns + i)) size += 2 * ((int64_t)ends_of(cell)[rows] - ends_of(cell)[0]);
    }
    return size;
}

static inline bool is_whole_field(const struct node *node, const uint8_t *at, int64_t size) {
    return size > 0 && (size != node->null.size || memcmp(at, node->null.start, (size_t)size) != 0);
}

static inline bool is_special(const struct node *node, uint8_t byte) {
    return (byte == '"') | (byte == (uint8_t)node->delimiter) | (byte == '\n') | (byte == '\r');
}

/* Whether a text has to stand in quotes for something in it. */
static inline bool any_special(const struct node *node, const uint8_t *at, int64_t size) {
    bool special = size >= MARK_SIZE && memcmp(at, BYTE_ORDER_MARK, MARK_SIZE) == 0;
    for (int64_t i = 0; i < size; i++) special |= is_special(node, at[i]);
    return special;
}

/* Whether that holds for no text of a column, seen by one pass over all their bytes. */
static bool is_plain(const struct node *node, const struct cell *cell, int64_t rows) {
    const uint8_t *text = cell->content + ends_of(cell)[0], delimiter = (uint8_t)node->delimiter;
    int64_t size = ends_of(cell)[rows] - ends_of(cell)[0], special = 0;
    for (int64_t i = 0; i < size; i++)
        special += (text[i] == '"') + (text[i] == delimiter) + (text[i] == '\n') + (text[i] == '\r') +
                   (text[i] == (uint8_t)BYTE_ORDER_MARK[0]);
    return special == 0;
}

static uint8_t *put_quoted(uint8_t *out, const uint8_t *at, int64_t size) {
    *out++ = '"';
    for (const uint8_t *end = at + size; at < end; at++) {
        if (*at == '"') *out++ = '"';
        *out++ = *at;
    }
    *out++ = '"';
    return out;
}

/* What is no text; NULL if it can't be written. */
static inline uint8_t *put_scalar(uint8_t *out, const struct column *column, const struct cell *cell, int64_t row) {
    const int32_t *ends = ends_of(cell) + row;
    switch (column->op) {
    case OP_BOOLEAN: return bit_of(cell->values, cell->offset + row) ? put(out, "true", 4) : put(out, "false", 5);
    case OP_WHOLE: return put_whole(out, whole_of(cell, row));
    case OP_DOUBLE: return put_double(out, ((const double *)cell->values)[cell->offset + row]);
    case OP_DECIMAL: return put_decimal(out, cell->values + (cell->offset + row) * 16, column->scale);
    case OP_DATE: return put_date(out, whole_of(cell, row));
    case OP_TIME: return put_time(out, whole_of(cell, row));
    case OP_ZONED_TIME:
        out = put_time(out, whole_of(cell, row));
        if (out != NULL) *out++ = 'Z';
        return out;
    case OP_MADE: return put(out, cell->content + ends[0], ends[1] - ends[0]);
    case OP_BASE64: return put_base64(out, cell->content + ends[0], ends[1] - ends[0]);
    default: return NULL;
    }
}

/* A field; `plain` says whether no text of the column is special. NULL if it can't be written. */
static inline uint8_t *put_field(uint8_t *out, const struct node *node, const struct column *column,
                                 const struct cell *cell, int64_t row, bool plain) {
    if (is_null(cell, row)) return put(out, node->null.start, node->null.size);
    if (column->op == OP_TEXT) {
        const int32_t *ends = ends_of(cell) + row;
        const uint8_t *at = cell->content + ends[0];
        int64_t size = ends[1] - ends[0];
        if (is_whole_field(node, at, size) && (plain || !any_special(node, at, size))) return put(out, at, size);
        return put_quoted(out, at, size);
    }
    uint8_t *end = put_scalar(out, column, cell, row);
    if (end == NULL || is_whole_field(node, out, end - out)) return end;
    memmove(out + 1, out, (size_t)(end - out));
    *out = '"';
    end[1] = '"';
    return end + 2;
}

/* So many rows as records, each behind the frame: where they end, and their bytes, `outcome[0]` at `outcome[1]`, which
 * whoever calls frees. `outcome[2]` is the row that can't be written, -1 if there is none, -2 if there is no memory, -3
 * if there are more bytes than a column holds. */
void holdfast_write_csv(const struct node *nodes, const struct cell *cells, int64_t rows, const uint8_t *frame,
                        int64_t frame_size, int32_t *ends, int64_t *outcome) {
    struct writer writer = {.nodes = nodes, .cells = cells};
    bool *plain = calloc((size_t)nodes->column_count, sizeof *plain);
    outcome[2] = -1;
    ends[0] = 0;
    if (plain == NULL || !make_room(&writer, most_bytes(nodes, cells, rows) + rows * frame_size + 1)) outcome[2] = -2;
    for (int64_t i = 0; i < nodes->column_count && outcome[2] == -1; i++)
        plain[i] = nodes->columns[i].op == OP_TEXT && is_plain(nodes, cells + 1 + i, rows);
    uint8_t *out = writer.out;
    for (int64_t row = 0; row < rows && outcome[2] == -1; row++) {
        out = put(out, frame, frame_size);
        for (int64_t i = 0; i < nodes->column_count && out != NULL; i++) {
            if (i > 0) *out++ = (uint8_t)nodes->delimiter;
            out = put_field(out, nodes, nodes->columns + i, cells + 1 + i, row, plain[i]);
        }
        if (out == NULL) outcome[2] = row;
        else if (out - writer.out > INT32_MAX) outcome[2] = -3;
        writer.size = out == NULL ? 0 : out - writer.out;
        ends[row + 1] = (int32_t)writer.size;
    }
    free(plain);
    finish(&writer, outcome);
}
