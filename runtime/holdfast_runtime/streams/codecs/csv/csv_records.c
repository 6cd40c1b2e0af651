/* The reader of lines of CSV, outside of Python and without the GIL: plainly good records into the buffers of Arrow
 * columns, by one pass over their bytes.
 *
 * A record is doubtful if anything in it is not what most producers write, or wrong: its row is taken back, and
 * line_judge.py, which is the law, reads it. What is taken is read as the judge reads it, to the bit.
 * Built by hatch_build.py, called by compiled_reader.py. Numbers and times are read by text_scalars.h.
 *
 * Must not wait, nor read beyond a record's last byte: records come from anybody.
 */

#include "csv_program.h"
#include "../record_cells.h"
#include "../base64_cells.h"
#include "../decimal_cells.h"

#include <math.h>

#define EACH(byte) ((byte) * 0x0101010101010101ULL)
#define FIRST_BLANK 0x0E /* all line breaks are below */

static inline bool ends_field(const struct node *node, const uint8_t *at, const uint8_t *end) {
    return at == end || *at == (uint8_t)node->delimiter;
}

/* A field without quotes; NULL if there is a quote or a line break in it. */
static inline const uint8_t *past_bare(const struct node *node, const uint8_t *at, const uint8_t *end) {
    uint64_t delimiters = EACH((uint64_t)node->delimiter);
    for (;;) {
        for (uint64_t word; end - at >= 8; at += 8) {
            memcpy(&word, at, 8);
            uint64_t quotes = word ^ EACH('"'), separators = word ^ delimiters;
            /* The lowest bit that is set is right; a byte of more than seven bits is none of these. */
            uint64_t special =
                ((word - EACH(FIRST_BLANK)) | (quotes - EACH(1)) | (separators - EACH(1))) & ~word & HIGH_BITS;
            if (special) {
                at += __builtin_ctzll(special) / 8;
                break;
            }
        }
        if (ends_field(node, at, end)) return at;
        if (*at == '"' || *at == '\n' || *at == '\r') return NULL;
        at++;
    }
}

/* A field behind its first quote; `doubled` gets how many quotes inside are written twice. NULL if nothing closes it. */
static inline const uint8_t *past_quoted(const uint8_t *at, const uint8_t *end, int64_t *doubled) {
    *doubled = 0;
    for (;;) {
        for (uint64_t word; end - at >= 8; at += 8) {
            memcpy(&word, at, 8);
            uint64_t quotes = word ^ EACH('"'), special = (quotes - EACH(1)) & ~quotes & HIGH_BITS;
            if (special) {
                at += __builtin_ctzll(special) / 8;
                break;
            }
        }
        while (at < end && *at != '"') at++;
        if (at == end) return NULL;
        at++;
        if (at == end || *at != '"') return at;
        at++;
        ++*doubled;
    }
}

/* A text whose quotes are written twice. */
static bool put_unquoted(struct reader *reader, struct cell *cell, const uint8_t *at, const uint8_t *stop,
                         int64_t doubled) {
    int64_t size = stop - at - doubled;
    if (!has_room(reader, cell) || !has_content_room(reader, cell, size)) return false;
    uint8_t *start = cell->content + cell->content_size, *out = start;
    while (at < stop) {
        const uint8_t *quote = memchr(at, '"', (size_t)(stop - at));
        int64_t part = (quote == NULL ? stop : quote + 1) - at;
        memcpy(out, at, (size_t)part);
        out += part;
        at += part + (quote != NULL);
    }
    if (!is_utf8(start, out)) return false;
    keep_content(cell, size);
    return true;
}

static inline bool is_word(const uint8_t *at, const uint8_t *stop, const char *word, int64_t size) {
    return stop - at == size && memcmp(at, word, (size_t)size) == 0;
}

static bool put_real(struct reader *reader, struct cell *cell, const uint8_t *at, const uint8_t *stop, bool is_float) {
    struct number number;
    double wide = 0;
    float narrow = 0;
    if (past_number(at, stop, &number) == stop) {
        if (is_float ? !float_of(&number, &narrow) : !double_of(&number, &wide)) return false;
    } else {
        if (is_word(at, stop, "NaN", 3)) wide = NAN;
        else if (is_word(at, stop, "Infinity", 8)) wide = INFINITY;
        else if (is_word(at, stop, "-Infinity", 9)) wide = -INFINITY;
        else return false;
        narrow = (float)wide;
    }
    return put_floating(reader, cell, is_float ? (const uint8_t *)&narrow : (const uint8_t *)&wide, is_float);
}

static bool put_boolean(struct reader *reader, struct cell *cell, const uint8_t *at, const uint8_t *stop) {
    bool is_true = is_word(at, stop, "true", 4);
    if ((!is_true && !is_word(at, stop, "false", 5)) || !has_room(reader, cell)) return false;
    set_bit(cell->values, cell->rows, is_true);
    keep_row(cell);
    return true;
}

/* What is between `at` and `stop`, `end` is that of the record. */
static inline bool put_value(struct reader *reader, const struct column *column, struct cell *cell, const uint8_t *at,
                             const uint8_t *stop, const uint8_t *end) {
    struct number number;
    int64_t whole;
    int32_t days;
    switch (column->op) {
    case OP_TEXT: return put_content(reader, cell, at, stop - at, end);
    case OP_WHOLE:
        return past_number(at, stop, &number) == stop && integer_of(&number, 64, &whole) &&
               put_whole(reader, cell, whole);
    case OP_TIME:
    case OP_ZONED_TIME:
        if (!time_of(at, stop - at, &whole) &&
            !(past_number(at, stop, &number) == stop && integer_of(&number, 64, &whole) && micros_of(whole, &whole)))
            return false;
        return put_whole(reader, cell, whole);
    case OP_DOUBLE: return put_real(reader, cell, at, stop, false);
    case OP_FLOAT: return put_real(reader, cell, at, stop, true);
    case OP_DECIMAL: return put_text_decimal(reader, cell, at, stop, column->scale);
    case OP_DATE: return date_of(at, stop - at, &days) && put_whole(reader, cell, days);
    case OP_BOOLEAN: return put_boolean(reader, cell, at, stop);
    case OP_BASE64: return put_base64(reader, cell, at, stop);
    default: return false;
    }
}

/* A field and its value; NULL if it is doubtful. */
static inline const uint8_t *past_field(struct reader *reader, const struct column *column, struct cell *cell,
                                        const uint8_t *at, const uint8_t *end) {
    const struct node *node = reader->nodes;
    const uint8_t *start = at;
    if (at < end && *at == '"') {
        int64_t doubled;
        at = past_quoted(++start, end, &doubled);
        if (at == NULL || !ends_field(node, at, end)) return NULL;
        if (doubled == 0) return put_value(reader, column, cell, start, at - 1, end) ? at : NULL;
        return column->op == OP_TEXT && put_unquoted(reader, cell, start, at - 1, doubled) ? at : NULL;
    }
    at = past_bare(node, at, end);
    if (at == NULL) return NULL;
    if (at - start == node->null.size && memcmp(start, node->null.start, (size_t)node->null.size) == 0)
        return put_null(reader, cell) ? at : NULL;
    return put_value(reader, column, cell, start, at, end) ? at : NULL;
}

static bool put_record(struct reader *reader, const uint8_t *at, const uint8_t *end) {
    const struct node *node = reader->nodes;
    struct cell *row = reader->cells;
    if (end - at >= MARK_SIZE && memcmp(at, BYTE_ORDER_MARK, MARK_SIZE) == 0) return false;
    for (int64_t i = 0; i < node->column_count; i++) {
        if (i > 0) {
            if (at == end) return false;
            at++; /* the delimiter */
        }
        at = past_field(reader, node->columns + i, row + 1 + i, at, end);
        if (at == NULL) return false;
    }
    if (at != end || !has_room(reader, row)) return false;
    keep_row(row);
    return true;
}

void holdfast_read_csv(RECORDS) {
    read_records(ends, bytes, records, frame_size, nodes, cells, cell_count, doubtful, outcome, put_record);
}
