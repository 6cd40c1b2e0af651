/* The writer of JSON objects, outside of Python and without the GIL: rows of Arrow columns as texts, one behind another.
 *
 * It writes what json_codec.py writes by pyarrow, byte by byte. Numbers that need more than a few digits behind the point,
 * and all that is no single value, come as texts that json_codec.py has made.
 * Built by hatch_build.py, called by flat_writer.py.
 *
 * Must not allocate or wait, nor write more than it has said that it needs.
 */

#include <math.h>

#include "json_scalars.h"

/* Whoever changes a struct or a function below counts this up, and LOOPS_VERSION of flat_writer.py with it. */
#define LOOPS_VERSION 1

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

static inline uint8_t *put(uint8_t *out, const void *text, int64_t size) {
    memcpy(out, text, (size_t)size);
    return out + size;
}

/* So many digits, with zeros before. */
static inline uint8_t *put_digits(uint8_t *out, uint64_t number, int digits) {
    for (int i = digits - 1; i >= 0; i--, number /= 10) out[i] = (uint8_t)('0' + number % 10);
    return out + digits;
}

static inline uint8_t *put_whole(uint8_t *out, int64_t number) {
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    int digits = 1;
    for (uint64_t tens = rest; tens >= 10; tens /= 10) digits++;
    if (number < 0) *out++ = '-';
    return put_digits(out, rest, digits);
}

#define MOST_DECIMALS 6
#define WHOLE_DIGITS 1e9

/* A number of few digits in its shortest form; NULL if it has more. */
static uint8_t *put_double(uint8_t *out, double number) {
    static const double tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6};
    if (isnan(number)) return put(out, "\"NaN\"", 5);
    if (isinf(number)) return number > 0 ? put(out, "\"Infinity\"", 10) : put(out, "\"-Infinity\"", 11);
    double size = fabs(number);
    if (size >= WHOLE_DIGITS) return NULL;
    for (int decimals = 0; decimals <= MOST_DECIMALS; decimals++) {
        int64_t digits = (int64_t)(size * tens[decimals] + 0.5);
        if ((double)digits / tens[decimals] != size) continue;
        if (signbit(number)) *out++ = '-';
        int64_t scale = (int64_t)tens[decimals];
        out = put_whole(out, digits / scale);
        if (!decimals) return out;
        *out++ = '.';
        return put_digits(out, (uint64_t)(digits % scale), decimals);
    }
    return NULL;
}

/* Days since 1970 as `2024-01-31`; NULL beyond the years 1 to 9999. */
static uint8_t *put_date(uint8_t *out, int64_t days) {
    if (days < FIRST_SECOND / 86400 || days >= END_SECOND / 86400) return NULL;
    /* Since March of the year 0, so that a leap day ends its year, and a year of four hundred its cycle. */
    int64_t since = days + 719468, cycle = since / 146097, in_cycle = since % 146097;
    int64_t years = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
    int64_t in_year = in_cycle - (365 * years + years / 4 - years / 100);
    int64_t months = (5 * in_year + 2) / 153, month = months < 10 ? months + 3 : months - 9;
    out = put_digits(out, (uint64_t)(cycle * 400 + years + (month <= 2)), 4);
    *out++ = '-';
    out = put_digits(out, (uint64_t)month, 2);
    *out++ = '-';
    return put_digits(out, (uint64_t)(in_year - (153 * months + 2) / 5 + 1), 2);
}

/* Microseconds since 1970 as `2024-01-31T12:00:00.123`, with six digits if they are needed. */
static uint8_t *put_time(uint8_t *out, int64_t micros) {
    int64_t day = 86400 * MICROS_PER_SECOND, days = micros / day - (micros % day < 0), rest = micros - days * day;
    out = put_date(out, days);
    if (out == NULL) return NULL;
    int64_t seconds = rest / MICROS_PER_SECOND, fraction = rest % MICROS_PER_SECOND;
    *out++ = 'T';
    out = put_digits(out, (uint64_t)(seconds / 3600), 2);
    *out++ = ':';
    out = put_digits(out, (uint64_t)(seconds / 60 % 60), 2);
    *out++ = ':';
    out = put_digits(out, (uint64_t)(seconds % 60), 2);
    *out++ = '.';
    return fraction % 1000 ? put_digits(out, (uint64_t)fraction, 6) : put_digits(out, (uint64_t)(fraction / 1000), 3);
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

/* NULL if it can't be written. */
static inline uint8_t *put_value(uint8_t *out, const struct column *column, int64_t row) {
    const int32_t *ends = column->values;
    switch (column->kind) {
    case BOOLEAN: return bit(column->values, column->offset + row) ? put(out, "true", 4) : put(out, "false", 5);
    case TINYINT: return put_whole(out, ((const int8_t *)column->values)[row]);
    case SMALLINT: return put_whole(out, ((const int16_t *)column->values)[row]);
    case INT: return put_whole(out, ((const int32_t *)column->values)[row]);
    case BIGINT: return put_whole(out, ((const int64_t *)column->values)[row]);
    case DOUBLE: return put_double(out, ((const double *)column->values)[row]);
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
