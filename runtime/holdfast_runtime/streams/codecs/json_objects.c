/* The writer of JSON objects, outside of Python and without the GIL: rows of Arrow columns as texts, one behind another.
 *
 * It writes what json_codec.py writes by pyarrow, byte by byte. Numbers that need more than a few digits behind the point,
 * and all that is no single value, come as texts that json_codec.py has made.
 * Built by hatch_build.py, called by flat_writer.py.
 *
 * Must not allocate or wait, nor write more than it has said that it needs.
 */

#include <math.h>

#include "scalar_texts.h"

/* Whoever changes a struct or a function below counts this up, and LOOPS_VERSION of flat_writer.py with it. */
#define LOOPS_VERSION 1

/* What columns hold, by the numbers of flat_writer.py; a TEXT is JSON already. */
enum { BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, DATE, TIMESTAMP, TEXT };

struct column {
    const uint8_t *head; /* the name as JSON, and a colon */
    int64_t head_size;
    int64_t kind;
    int64_t zoned;        /* of a TIMESTAMP: whether a Z ends it */
    const void *values;   /* of a STRING and a TEXT the ends: one more than rows */
    const uint8_t *bytes; /* of a STRING and a TEXT */
    const uint8_t *valid; /* NULL if all are */
    int64_t offset;       /* of the first row in `valid`, and in `values` of a BOOLEAN */
    int64_t escaped;      /* of a STRING: whether there may be something to escape */
};

int32_t holdfast_loops_version(void) { return LOOPS_VERSION; }

static inline bool bit(const uint8_t *bits, int64_t at) { return bits[at >> 3] >> (at & 7) & 1; }

/* `{`, `}`, and of each value its comma and at most this: quotes and 27 characters of a time, or 20 digits and a sign. */
#define LONGEST 30

/* How many bytes the objects need at most. */
void holdfast_measure_objects(struct column *columns, int64_t count, int64_t rows, int64_t *room) {
    *room = 2 * rows;
    for (struct column *column = columns; column < columns + count; column++) {
        *room += rows * (1 + column->head_size + LONGEST);
        if (column->kind != STRING && column->kind != TEXT) continue;
        const int32_t *ends = column->values;
        int64_t more = 0;
        if (column->kind == STRING)
            for (const uint8_t *at = column->bytes + ends[0]; at < column->bytes + ends[rows]; at++)
                more += (*at < ' ') * 5 + (*at == '"') + (*at == '\\');
        column->escaped = more > 0;
        *room += ends[rows] - ends[0] + more;
    }
}

static uint8_t *put_escaped(uint8_t *out, const uint8_t *at, const uint8_t *end) {
    static const char hex[] = "0123456789abcdef", shorts[] = "btn\0fr";
    for (; at < end; at++) {
        if (*at >= ' ' && *at != '"' && *at != '\\') {
            *out++ = *at;
            continue;
        }
        *out++ = '\\';
        if (*at >= ' ') {
            *out++ = *at;
        } else if (*at >= '\b' && *at <= '\r' && *at != '\v') {
            *out++ = (uint8_t)shorts[*at - '\b'];
        } else {
            out = put(out, "u00", 3);
            *out++ = (uint8_t)hex[*at >> 4];
            *out++ = (uint8_t)hex[*at & 15];
        }
    }
    return out;
}

/* What is no number is a string. */
static uint8_t *put_json_double(uint8_t *out, double number) {
    if (isfinite(number)) return put_double(out, number);
    *out++ = '"';
    out = put_double(out, number);
    *out++ = '"';
    return out;
}

/* NULL if it can't be written. */
static inline uint8_t *put_value(uint8_t *out, const struct column *column, int64_t row) {
    const int32_t *ends = column->values;
    switch (column->kind) {
    case BOOLEAN: return bit(column->values, column->offset + row) ? put(out, "true", 4) : put(out, "false", 5);
    case TINYINT: return put_whole(out, ((const int8_t *)column->values)[row]);
    case SMALLINT: return put_whole(out, ((const int16_t *)column->values)[row]);
    case INT: return put_whole(out, ((const int32_t *)column->values)[row]);
    case BIGINT: return put_whole(out, ((const int64_t *)column->values)[row]);
    case DOUBLE: return put_json_double(out, ((const double *)column->values)[row]);
    case TEXT: return put(out, column->bytes + ends[row], ends[row + 1] - ends[row]);
    }
    *out++ = '"';
    switch (column->kind) {
    case DATE: out = put_date(out, ((const int32_t *)column->values)[row]); break;
    case TIMESTAMP: out = put_time(out, ((const int64_t *)column->values)[row]); break;
    default:
        if (column->escaped) out = put_escaped(out, column->bytes + ends[row], column->bytes + ends[row + 1]);
        else out = put(out, column->bytes + ends[row], ends[row + 1] - ends[row]);
    }
    if (out == NULL) return NULL;
    if (column->zoned) *out++ = 'Z';
    *out++ = '"';
    return out;
}

/* One object for each row, without null columns. `size`: of all; below zero if a column, counted from 1, has a value that
 * can't be written. */
void holdfast_write_objects(
    const struct column *columns, int64_t count, int64_t rows, int32_t *ends, uint8_t *out, int64_t *size) {
    const uint8_t *first = out;
    ends[0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        *out++ = '{';
        bool any = false;
        for (const struct column *column = columns; column < columns + count; column++) {
            if (column->valid && !bit(column->valid, column->offset + row)) continue;
            if (any) *out++ = ',';
            any = true;
            out = put_value(put(out, column->head, column->head_size), column, row);
            if (out == NULL) {
                *size = columns - column - 1;
                return;
            }
        }
        *out++ = '}';
        ends[row + 1] = (int32_t)(out - first);
    }
    *size = out - first;
}
