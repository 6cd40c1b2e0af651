/* The reader of Avro records, outside of Python and without the GIL: records into the buffers of Arrow columns, by one
 * pass over their bytes.
 *
 * A record that avro_judge.py, which is the law, can't read is doubtful: its columns are left as they were, and the
 * judge gives the reason. What is taken is read as the judge reads it, to the bit.
 * Built by hatch_build.py, called by compiled_reader.py.
 *
 * Must not read beyond a record's last byte, nor allocate what a record only claims to have: records come from
 * anybody.
 */

#include "avro_program.h"
#include "../decimal_cells.h"
#include "../record_cells.h"
#include "../varints.h"

/* Records, arrays and maps inside of each other that are skipped. */
#define DEEPEST 64
/* Values that are skipped: so many of a record, and so many more for each of its bytes. */
#define STEPS 4096
#define STEPS_OF_A_BYTE 256
/* Each `past_` returns what follows the thing it is named after; NULL if it is none, or if there is a fault. */

static inline const uint8_t *past_whole(const uint8_t *at, const uint8_t *end, int64_t *value) {
    uint64_t number = 0;
    at = past_varint(at, end, &number);
    *value = (int64_t)(number >> 1 ^ (0 - (number & 1)));
    return at;
}

static inline const uint8_t *past_int(const uint8_t *at, const uint8_t *end, int64_t *value) {
    at = past_whole(at, end, value);
    return at == NULL || *value < INT32_MIN || *value > INT32_MAX ? NULL : at;
}

/* A size, which the record has. */
static inline const uint8_t *past_size(const uint8_t *at, const uint8_t *end, int64_t *size) {
    at = past_whole(at, end, size);
    return at == NULL || *size < 0 || *size > end - at ? NULL : at;
}

/* A number below the count. */
static inline const uint8_t *past_choice(const uint8_t *at, const uint8_t *end, int64_t count, int64_t *choice) {
    at = past_whole(at, end, choice);
    return at == NULL || *choice < 0 || *choice >= count ? NULL : at;
}

/* How many items follow, 0 if they are over, and how many bytes these have, -1 if that is not said. */
static const uint8_t *past_block_head(struct reader *reader, const uint8_t *at, const uint8_t *end, int64_t *count,
                                      int64_t *size) {
    *size = -1;
    at = past_whole(at, end, count);
    if (at == NULL || *count == INT64_MIN) return NULL;
    if (*count < 0) {
        *count = -*count;
        at = past_size(at, end, size);
        if (at == NULL) return NULL;
    }
    /* Items may have no bytes at all, so their bytes alone don't limit how many a record claims. */
    if (*count > reader->items_left) return NULL;
    reader->items_left -= *count;
    return at;
}

static bool put_decimal(struct reader *reader, struct cell *cell, const uint8_t *at, int64_t size, int64_t more) {
    uint8_t sign = size > 0 && *at >= 0x80 ? 0xFF : 0;
    const uint8_t *end = at + size;
    while (at < end && *at == sign) at++;
    if (end - at > 16) return false;
    unsigned __int128 bits = sign ? ~(unsigned __int128)0 : 0;
    for (; at < end; at++) bits = bits << 8 | *at;
    __int128 value = (__int128)bits;
    return (value < 0) == (sign != 0) && put_digits(reader, cell, value, more);
}

/* A text that is a value of another type. */
static bool put_by_text(struct reader *reader, struct cell *cell, const struct node *node, const uint8_t *at,
                        int64_t size) {
    int64_t micros;
    int32_t days;
    switch (node->op) {
    case OP_ISO_TIME: return time_of(at, size, &micros) && put_whole(reader, cell, micros);
    case OP_ISO_DATE:
        size -= size > 0 && at[size - 1] == 'Z';
        return date_of(at, size, &days) && put_whole(reader, cell, days);
    default: return put_text_decimal(reader, cell, at, at + size, node->factor);
    }
}

static inline bool put_number(struct reader *reader, struct cell *cell, int64_t value, int64_t factor) {
    if (cell->kind == DECIMAL) return put_digits(reader, cell, value, factor);
    if (factor != 1 && cell->kind == WHOLE && !scaled(value, factor, &value)) return false;
    return put_whole(reader, cell, value);
}

/* A value that no column has. */
static const uint8_t *past_skipped(struct reader *reader, const struct node *node, const uint8_t *at,
                                   const uint8_t *end, int depth) {
    int64_t number, size;
    if (reader->steps_left-- == 0) return NULL;
    switch (node->op) {
    case OP_NULL: return at;
    case OP_BOOLEAN: return at < end && *at <= 1 ? at + 1 : NULL;
    case OP_INT: return past_int(at, end, &number);
    case OP_LONG: return past_whole(at, end, &number);
    case OP_FLOAT: return end - at < 4 ? NULL : at + 4;
    case OP_DOUBLE: return end - at < 8 ? NULL : at + 8;
    case OP_BYTES: return (at = past_size(at, end, &size)) == NULL ? NULL : at + size;
    case OP_FIXED: return end - at < node->size ? NULL : at + node->size;
    case OP_ENUM: return past_choice(at, end, node->symbol_count, &number);
    case OP_UNION:
        at = past_choice(at, end, node->inner_count, &number);
        return at == NULL ? NULL : past_skipped(reader, reader->nodes + node->inner[number], at, end, depth);
    case OP_RECORD:
        if (depth == DEEPEST) return NULL;
        for (int64_t i = 0; at != NULL && i < node->inner_count; i++)
            at = past_skipped(reader, reader->nodes + node->inner[i], at, end, depth + 1);
        return at;
    case OP_ARRAY:
    case OP_MAP:
        if (depth == DEEPEST) return NULL;
        for (;;) {
            at = past_block_head(reader, at, end, &number, &size);
            if (at == NULL || number == 0) return at;
            const uint8_t *start = at;
            for (; number > 0; number--) {
                int64_t key_size;
                if (node->op == OP_MAP) {
                    at = past_size(at, end, &key_size);
                    if (at == NULL) return NULL;
                    at += key_size;
                }
                at = past_skipped(reader, reader->nodes + node->inner[0], at, end, depth + 1);
                if (at == NULL) return NULL;
            }
            if (size >= 0 && at - start != size) return NULL;
        }
    default: return NULL;
    }
}

static const uint8_t *past_value(struct reader *reader, const struct node *node, const uint8_t *at, const uint8_t *end);

static const uint8_t *past_list(struct reader *reader, const struct node *node, const uint8_t *at, const uint8_t *end) {
    struct cell *cell = reader->cells + node->cell;
    struct cell *first = reader->cells + cell->inner[0];
    const struct node *item = reader->nodes + node->inner[0];
    int64_t count, size;
    if (!has_room(reader, cell)) return NULL;
    for (;;) {
        at = past_block_head(reader, at, end, &count, &size);
        if (at == NULL) return NULL;
        if (count == 0) break;
        const uint8_t *start = at;
        for (; count > 0; count--) {
            int64_t key_size;
            if (node->op == OP_MAP) {
                at = past_size(at, end, &key_size);
                if (at == NULL || !put_content(reader, first, at, key_size, end)) return NULL;
                at += key_size;
            }
            at = past_value(reader, item, at, end);
            if (at == NULL) return NULL;
        }
        if (size >= 0 && at - start != size) return NULL;
    }
    ((int32_t *)cell->values)[cell->rows + 1] = (int32_t)first->rows;
    keep_row(cell);
    return at;
}

static const uint8_t *past_record(struct reader *reader, const struct node *node, const uint8_t *at,
                                  const uint8_t *end) {
    struct cell *cell = reader->cells + node->cell;
    if (!has_room(reader, cell)) return NULL;
    for (int64_t i = 0; i < node->inner_count; i++) {
        at = past_value(reader, reader->nodes + node->inner[i], at, end);
        if (at == NULL) return NULL;
    }
    for (int64_t i = 0; i < node->absent_count; i++)
        if (!put_null(reader, reader->cells + node->absent[i])) return NULL;
    keep_row(cell);
    return at;
}

/* A value, into its cell. */
static const uint8_t *past_value(struct reader *reader, const struct node *node, const uint8_t *at,
                                 const uint8_t *end) {
    int64_t number, size;
    if (node->op == OP_UNION && node->cell >= 0) {
        at = past_choice(at, end, node->inner_count, &number);
        if (at == NULL) return NULL;
        node = reader->nodes + node->inner[number];
    }
    if (node->cell < 0) return past_skipped(reader, node, at, end, 0);
    struct cell *cell = reader->cells + node->cell;
    switch (node->op) {
    case OP_NULL: return put_null(reader, cell) ? at : NULL;
    case OP_BOOLEAN:
        if (at == end || *at > 1 || !has_room(reader, cell)) return NULL;
        set_bit(cell->values, cell->rows, *at);
        keep_row(cell);
        return at + 1;
    case OP_INT:
        at = past_int(at, end, &number);
        return at != NULL && put_number(reader, cell, number, node->factor) ? at : NULL;
    case OP_LONG:
        at = past_whole(at, end, &number);
        return at != NULL && put_number(reader, cell, number, node->factor) ? at : NULL;
    case OP_FLOAT: return end - at >= 4 && put_floating(reader, cell, at, true) ? at + 4 : NULL;
    case OP_DOUBLE: return end - at >= 8 && put_floating(reader, cell, at, false) ? at + 8 : NULL;
    case OP_BYTES:
    case OP_FIXED:
        size = node->size;
        if (node->op == OP_BYTES) at = past_size(at, end, &size);
        if (at == NULL || end - at < size) return NULL;
        if (cell->kind == DECIMAL) return put_decimal(reader, cell, at, size, node->factor) ? at + size : NULL;
        return put_content(reader, cell, at, size, end) ? at + size : NULL;
    case OP_ISO_TIME:
    case OP_ISO_DATE:
    case OP_TEXT_DECIMAL:
        at = past_size(at, end, &size);
        return at != NULL && put_by_text(reader, cell, node, at, size) ? at + size : NULL;
    case OP_OWN_SCALE:
        at = past_int(at, end, &number);
        if (at != NULL) at = past_size(at, end, &size);
        return at != NULL && put_decimal(reader, cell, at, size, node->factor - number) ? at + size : NULL;
    case OP_ENUM:
        at = past_choice(at, end, node->symbol_count, &number);
        if (at == NULL) return NULL;
        const struct text *symbol = node->symbols + number;
        return put_content(reader, cell, symbol->start, symbol->size, symbol->start + symbol->size) ? at : NULL;
    case OP_RECORD: return past_record(reader, node, at, end);
    case OP_ARRAY:
    case OP_MAP: return past_list(reader, node, at, end);
    default: return NULL; /* a misfit */
    }
}

static bool put_record(struct reader *reader, const uint8_t *at, const uint8_t *end) {
    reader->items_left = end - at;
    reader->steps_left = STEPS + STEPS_OF_A_BYTE * (end - at);
    return past_record(reader, reader->nodes, at, end) == end;
}

void holdfast_read_avro(RECORDS) {
    read_records(ends, bytes, records, frame_size, nodes, cells, cell_count, doubtful, outcome, put_record);
}
