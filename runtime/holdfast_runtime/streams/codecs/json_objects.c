/* The writer of JSON objects, outside of Python and without the GIL: rows of Arrow columns as texts, one behind another.
 *
 * It writes what json_codec.py writes by pyarrow, byte by byte. A column that has a number of many digits behind the
 * point anywhere comes as texts that json_codec.py has made, and so does one with a FLOAT.
 * Built by hatch_build.py, called by compiled_json_writer.py.
 *
 * Must not allocate or wait, nor write more than it has said that it needs.
 */

#include "scalar_texts.h"

/* Whoever changes a struct or a function below counts this up, and LOOPS_VERSION of compiled_json_writer.py with it. */
#define LOOPS_VERSION 2

/* What columns hold, by the numbers of compiled_json_writer.py; MADE is a text that is JSON already. */
enum {
    BOOLEAN,
    TINYINT,
    SMALLINT,
    INT,
    BIGINT,
    DOUBLE,
    STRING,
    DATE,
    TIMESTAMP,
    BINARY,
    DECIMAL,
    MADE,
    NOTHING,
    STRUCT,
    LIST,
    MAP,
};

/* A column, or a part of one, which has rows of its own. */
struct column {
    const uint8_t *head; /* of a column and a member: the name as JSON, and a colon */
    int64_t head_size;
    int64_t kind;
    int64_t detail;       /* of a TIMESTAMP: whether a Z ends it; of a DECIMAL: its scale */
    const void *values;   /* of what has content the ends: one more than rows */
    const uint8_t *bytes; /* of a STRING, a BINARY and a MADE */
    const uint8_t *valid; /* NULL if all are */
    int64_t offset;       /* of the first row in `valid`, and in `values` of a BOOLEAN */
    int64_t escaped;      /* of a STRING: whether there may be something to escape */
    struct column *parts; /* the members of a STRUCT, the element of a LIST, the key and the value of a MAP */
    int64_t part_count;
};

int32_t holdfast_loops_version(void) { return LOOPS_VERSION; }

static inline bool bit(const uint8_t *bits, int64_t at) { return bits[at >> 3] >> (at & 7) & 1; }

static inline bool is_null(const struct column *column, int64_t row) {
    return column->kind == NOTHING || (column->valid && !bit(column->valid, column->offset + row));
}

static inline const int32_t *ends_of(const struct column *column, int64_t row) {
    return (const int32_t *)column->values + row;
}

static inline int64_t content_size(const struct column *column, int64_t first, int64_t rows) {
    return ends_of(column, first)[rows] - ends_of(column, first)[0];
}

static inline const uint8_t *content_of(const struct column *column, int64_t row) {
    return column->bytes + *ends_of(column, row);
}

/* What a value needs at most beside its content, in quotes or brackets. */
static inline int64_t longest(const struct column *column) {
    return (column->kind == DECIMAL ? LONGEST_DECIMAL : LONGEST_TEXT) + 2;
}

/* How many bytes these rows of a STRING need for escapes. */
static int64_t escapes_of(struct column *column, int64_t first, int64_t rows) {
    const uint8_t *end = content_of(column, first + rows);
    int64_t more = 0;
    for (const uint8_t *at = content_of(column, first); at < end; at++)
        more += (*at < ' ') * 5 + (*at == '"') + (*at == '\\');
    if (more > 0) column->escaped = true;
    return more;
}

/* How many bytes these rows of a column need at most, each with a comma. */
static int64_t room_of(struct column *column, int64_t first, int64_t rows) {
    if (rows == 0) return 0; /* there may be no ends */
    int64_t room = rows * (1 + column->head_size + longest(column));
    switch (column->kind) {
    case STRING: return room + content_size(column, first, rows) + escapes_of(column, first, rows);
    case MADE: return room + content_size(column, first, rows);
    case BINARY: return room + content_size(column, first, rows) / 3 * 4;
    case LIST:
    case MAP:
        for (int64_t i = 0; i < column->part_count; i++)
            room += room_of(column->parts + i, *ends_of(column, first), content_size(column, first, rows));
        return room;
    case STRUCT:
        for (int64_t i = 0; i < column->part_count; i++) room += room_of(column->parts + i, first, rows);
        return room;
    default: return room;
    }
}

/* How many bytes the objects need at most. */
void holdfast_measure_objects(struct column *columns, int64_t count, int64_t rows, int64_t *room) {
    *room = 2 * rows;
    for (struct column *column = columns; column < columns + count; column++) *room += room_of(column, 0, rows);
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

/* Each `put_` below returns NULL if something can't be written. */

static uint8_t *put_item(uint8_t *out, const struct column *column, int64_t row);

/* The members of a row that are not null, but not the braces. Where one can't be written, `failed` is its number. */
static inline uint8_t *put_members(uint8_t *out, const struct column *columns, int64_t count, int64_t row,
                                   int64_t *failed) {
    bool any = false;
    for (const struct column *column = columns; column < columns + count; column++) {
        if (is_null(column, row)) continue;
        if (any) *out++ = ',';
        any = true;
        out = put_item(put(out, column->head, column->head_size), column, row);
        if (out == NULL) {
            *failed = column - columns;
            return NULL;
        }
    }
    return out;
}

/* The items of a LIST or a MAP, but not the brackets. In them a null keeps its place. */
static uint8_t *put_items(uint8_t *out, const struct column *column, int64_t row) {
    const int32_t *ends = ends_of(column, row);
    const struct column *key = column->kind == MAP ? column->parts : NULL, *item = column->parts + (key != NULL);
    for (int64_t at = ends[0]; at < ends[1]; at++) {
        if (at > ends[0]) *out++ = ',';
        if (key != NULL) {
            out = put_item(out, key, at);
            *out++ = ':';
        }
        out = is_null(item, at) ? put(out, "null", 4) : put_item(out, item, at);
        if (out == NULL) return NULL;
    }
    return out;
}

/* A value that is not null. */
static uint8_t *put_item(uint8_t *out, const struct column *column, int64_t row) {
    int64_t failed;
    switch (column->kind) {
    case BOOLEAN: return bit(column->values, column->offset + row) ? put(out, "true", 4) : put(out, "false", 5);
    case TINYINT: return put_whole(out, ((const int8_t *)column->values)[row]);
    case SMALLINT: return put_whole(out, ((const int16_t *)column->values)[row]);
    case INT: return put_whole(out, ((const int32_t *)column->values)[row]);
    case BIGINT: return put_whole(out, ((const int64_t *)column->values)[row]);
    case DOUBLE: return put_json_double(out, ((const double *)column->values)[row]);
    case DECIMAL: return put_decimal(out, (const uint8_t *)column->values + 16 * row, column->detail);
    case MADE: return put(out, content_of(column, row), content_size(column, row, 1));
    case STRUCT:
        *out++ = '{';
        out = put_members(out, column->parts, column->part_count, row, &failed);
        if (out != NULL) *out++ = '}';
        return out;
    case LIST:
    case MAP:
        *out++ = column->kind == LIST ? '[' : '{';
        out = put_items(out, column, row);
        if (out != NULL) *out++ = column->kind == LIST ? ']' : '}';
        return out;
    }
    *out++ = '"';
    switch (column->kind) {
    case DATE: out = put_date(out, ((const int32_t *)column->values)[row]); break;
    case TIMESTAMP: out = put_time(out, ((const int64_t *)column->values)[row]); break;
    case BINARY: out = put_base64(out, content_of(column, row), content_size(column, row, 1)); break;
    default:
        if (column->escaped) out = put_escaped(out, content_of(column, row), content_of(column, row + 1));
        else out = put(out, content_of(column, row), content_size(column, row, 1));
    }
    if (out == NULL) return NULL;
    if (column->kind == TIMESTAMP && column->detail) *out++ = 'Z';
    *out++ = '"';
    return out;
}

/* The objects of all rows and where each ends. `size` is that of all, or -1 less the number of a column that holds what
 * can't be written. */
void holdfast_write_objects(const struct column *columns, int64_t count, int64_t rows, int32_t *ends, uint8_t *out,
                            int64_t *size) {
    const uint8_t *first = out;
    int64_t failed;
    ends[0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        *out++ = '{';
        out = put_members(out, columns, count, row, &failed);
        if (out == NULL) {
            *size = -1 - failed;
            return;
        }
        *out++ = '}';
        ends[row + 1] = (int32_t)(out - first);
    }
    *size = out - first;
}
