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
#include "../utf8.h"

/* Records, arrays and maps inside of each other that are skipped. */
#define DEEPEST 64
/* Values that are skipped: so many of a record, and so many more for each of its bytes. */
#define STEPS 4096
#define STEPS_OF_A_BYTE 256
/* So that the last bytes of a text can be written as a word. */
#define SLACK 8
#define HIGH_BITS 0x8080808080808080ULL

/* A column, or a part of one: what was read into it. */
struct cell {
    int64_t kind;
    int64_t width;       /* the bytes of a value; of texts, lists and maps those of an end */
    int64_t least, most; /* of whole numbers */
    int64_t precision;   /* of decimals */
    const int32_t *inner;
    int64_t inner_count;
    int64_t rows;
    int64_t room; /* for so many rows */
    int64_t nulls;
    uint8_t *valid;  /* NULL until there is a null */
    uint8_t *values; /* or the ends: one more than rows, the first is 0 */
    uint8_t *content;
    int64_t content_size, content_room;
};

enum fault { NO_FAULT, NO_MEMORY, TOO_LARGE };

struct reader {
    const struct node *nodes;
    struct cell *cells;
    int64_t items_left; /* that the record may still claim */
    int64_t steps_left; /* that skipping may still take: what has no bytes may double with each level */
    enum fault fault;
};

static inline int64_t bitmap_size(int64_t rows) { return (rows + 7) / 8; }

static inline bool has_ends(const struct cell *cell) { return cell->kind >= TEXT && cell->kind != STRUCT; }

static bool resize(struct reader *reader, uint8_t **memory, int64_t size) {
    uint8_t *larger = realloc(*memory, (size_t)size);
    if (larger == NULL) {
        reader->fault = NO_MEMORY;
        return false;
    }
    *memory = larger;
    return true;
}

static int64_t values_size(const struct cell *cell, int64_t rows) {
    if (cell->kind == BOOLEAN) return bitmap_size(rows);
    return (rows + has_ends(cell)) * cell->width;
}

static bool make_room(struct reader *reader, struct cell *cell, int64_t rows) {
    if (rows > INT32_MAX) {
        reader->fault = TOO_LARGE;
        return false;
    }
    int64_t old_size = cell->values == NULL ? 0 : values_size(cell, cell->room), size = values_size(cell, rows);
    if (size > 0) {
        if (!resize(reader, &cell->values, size)) return false;
        if (cell->kind == BOOLEAN) memset(cell->values + old_size, 0, (size_t)(size - old_size));
        if (has_ends(cell) && old_size == 0) memset(cell->values, 0, (size_t)cell->width);
    }
    if (cell->valid != NULL) {
        old_size = bitmap_size(cell->room);
        if (!resize(reader, &cell->valid, bitmap_size(rows))) return false;
        memset(cell->valid + old_size, 0, (size_t)(bitmap_size(rows) - old_size));
    }
    cell->room = rows;
    return true;
}

static inline bool has_room(struct reader *reader, struct cell *cell) {
    if (__builtin_expect(cell->rows < cell->room, true)) return true;
    int64_t rows = cell->room < 16 ? 16 : 2 * cell->room;
    return make_room(reader, cell, rows > INT32_MAX && cell->room < INT32_MAX ? INT32_MAX : rows);
}

static bool has_content_room(struct reader *reader, struct cell *cell, int64_t size) {
    if (__builtin_expect(size <= cell->content_room - cell->content_size - SLACK, true)) return true;
    if (size > INT32_MAX - cell->content_size) {
        reader->fault = TOO_LARGE;
        return false;
    }
    int64_t room = cell->content_size + size + SLACK;
    if (room < 2 * cell->content_room) room = 2 * cell->content_room;
    if (!resize(reader, &cell->content, room)) return false;
    cell->content_room = room;
    return true;
}

/* The row that was written is there, and not null. */
static inline void keep_row(struct cell *cell) {
    if (cell->valid != NULL) set_bit(cell->valid, cell->rows, true);
    cell->rows++;
}

static bool put_null(struct reader *reader, struct cell *cell) {
    if (!has_room(reader, cell)) return false;
    if (cell->kind == NOTHING) {
        cell->rows++;
        return true;
    }
    if (cell->valid == NULL) {
        if (!resize(reader, &cell->valid, bitmap_size(cell->room))) return false;
        memset(cell->valid, 0xFF, (size_t)bitmap_size(cell->room));
    }
    int64_t row = cell->rows;
    int32_t *ends = (int32_t *)cell->values;
    switch (cell->kind) {
    case BOOLEAN: set_bit(cell->values, row, false); break;
    case STRUCT:
        for (int64_t i = 0; i < cell->inner_count; i++)
            if (!put_null(reader, reader->cells + cell->inner[i])) return false;
        break;
    case TEXT:
    case BINARY:
    case LIST:
    case MAP: ends[row + 1] = ends[row]; break;
    default: memset(cell->values + row * cell->width, 0, (size_t)cell->width);
    }
    set_bit(cell->valid, row, false);
    cell->nulls++;
    cell->rows++;
    return true;
}

/* Leaves so many rows. */
static void take_back(struct cell *cells, struct cell *cell, int64_t rows) {
    if (cell->valid != NULL)
        for (int64_t row = rows; row < cell->rows; row++) cell->nulls -= !bit_of(cell->valid, row);
    const int32_t *ends = (const int32_t *)cell->values;
    cell->rows = rows;
    if (cell->kind == TEXT || cell->kind == BINARY) cell->content_size = ends ? ends[rows] : 0;
    if (cell->kind == LIST || cell->kind == MAP) rows = ends ? ends[rows] : 0;
    for (int64_t i = 0; i < cell->inner_count; i++) take_back(cells, cells + cell->inner[i], rows);
}

/* Each `past_` returns what follows the thing it is named after; NULL if it is none, or if there is a fault. */

static const uint8_t *past_long_whole(const uint8_t *at, const uint8_t *end, int64_t *value) {
    uint64_t number = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1) return NULL;
        number |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int64_t)(number >> 1 ^ (0 - (number & 1)));
            return at;
        }
    }
    return NULL;
}

static inline const uint8_t *past_whole(const uint8_t *at, const uint8_t *end, int64_t *value) {
    if (at < end && *at < 0x80) {
        *value = *at >> 1 ^ -(*at & 1);
        return at + 1;
    }
    return past_long_whole(at, end, value);
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

static bool is_utf8(const uint8_t *at, const uint8_t *end) {
    while (at < end) {
        int64_t size = *at < 0x80 ? 1 : character_size(at, end);
        if (size == 0) return false;
        at += size;
    }
    return true;
}

/* The bytes of a text or of binary, `end` is that of the record. */
static inline bool put_content(struct reader *reader, struct cell *cell, const uint8_t *at, int64_t size,
                               const uint8_t *end) {
    if (!has_room(reader, cell) || !has_content_room(reader, cell, size)) return false;
    uint8_t *out = cell->content + cell->content_size;
    uint64_t word, all = 0;
    int64_t done = 0;
    if (size < 64) {
        for (; size - done >= 8; done += 8) {
            memcpy(&word, at + done, 8);
            memcpy(out + done, &word, 8);
            all |= word;
        }
        if (end - (at + done) >= 8) {
            memcpy(&word, at + done, 8);
            memcpy(out + done, &word, 8);
            all |= word & ((1ULL << (8 * (size - done))) - 1);
        } else {
            for (; done < size; done++) {
                out[done] = at[done];
                all |= at[done];
            }
        }
    } else {
        memcpy(out, at, (size_t)size);
        for (; size - done >= 8; done += 8) {
            memcpy(&word, at + done, 8);
            all |= word;
        }
        for (; done < size; done++) all |= at[done];
    }
    if (cell->kind == TEXT && (all & HIGH_BITS) && !is_utf8(at, at + size)) return false;
    cell->content_size += size;
    ((int32_t *)cell->values)[cell->rows + 1] = (int32_t)cell->content_size;
    keep_row(cell);
    return true;
}

static bool put_decimal(struct reader *reader, struct cell *cell, const uint8_t *at, int64_t size, int64_t more) {
    uint8_t sign = size > 0 && *at >= 0x80 ? 0xFF : 0;
    const uint8_t *end = at + size;
    while (at < end && *at == sign) at++;
    if (end - at > 16) return false;
    unsigned __int128 bits = sign ? ~(unsigned __int128)0 : 0;
    for (; at < end; at++) bits = bits << 8 | *at;
    __int128 value = (__int128)bits, limit = (__int128)power_of_ten(cell->precision - more);
    if ((value < 0) != (sign != 0) || value >= limit || value <= -limit || !has_room(reader, cell)) return false;
    value *= (__int128)power_of_ten(more);
    memcpy(cell->values + cell->rows * 16, &value, 16);
    keep_row(cell);
    return true;
}

static inline bool put_number(struct reader *reader, struct cell *cell, int64_t value, int64_t factor) {
    if (!has_room(reader, cell)) return false;
    if (cell->kind == DOUBLE) {
        ((double *)cell->values)[cell->rows] = (double)value;
    } else if (cell->kind == FLOAT) {
        ((float *)cell->values)[cell->rows] = (float)value;
    } else {
        if (factor != 1 && !scaled(value, factor, &value)) return false;
        if (value < cell->least || value > cell->most) return false;
        switch (cell->width) {
        case 1: ((int8_t *)cell->values)[cell->rows] = (int8_t)value; break;
        case 2: ((int16_t *)cell->values)[cell->rows] = (int16_t)value; break;
        case 4: ((int32_t *)cell->values)[cell->rows] = (int32_t)value; break;
        default: ((int64_t *)cell->values)[cell->rows] = value;
        }
    }
    keep_row(cell);
    return true;
}

static bool put_floating(struct reader *reader, struct cell *cell, const uint8_t *at, bool is_float) {
    float single;
    if (!has_room(reader, cell)) return false;
    if (!is_float) {
        memcpy(cell->values + cell->rows * 8, at, 8);
    } else if (cell->kind == FLOAT) {
        memcpy(cell->values + cell->rows * 4, at, 4);
    } else {
        memcpy(&single, at, 4);
        ((double *)cell->values)[cell->rows] = single;
    }
    keep_row(cell);
    return true;
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

/* Room for all records in a cell that has a row for each. */
static bool prepare(struct reader *reader, struct cell *cell, int64_t records) {
    if (records > 0 && !make_room(reader, cell, records)) return false;
    if (cell->kind == STRUCT)
        for (int64_t i = 0; i < cell->inner_count; i++)
            if (!prepare(reader, reader->cells + cell->inner[i], records)) return false;
    return true;
}

/* The memory that has a use; what is smaller stays where it is, if it can't move. */
static void shrink(uint8_t **memory, int64_t size) {
    uint8_t *smaller = *memory == NULL ? NULL : realloc(*memory, size > 0 ? (size_t)size : 1);
    if (smaller != NULL) *memory = smaller;
}

/* The records behind `frame_size` bytes each into rows, except those that `doubtful` names, `outcome[0]` of them.
 * `outcome[1]` is a fault, with which there are none. Whoever calls frees what the cells point to. */
void holdfast_read_avro(const int32_t *ends, const uint8_t *bytes, int64_t records, int64_t frame_size,
                        const struct node *nodes, struct cell *cells, int64_t cell_count, int32_t *doubtful,
                        int64_t *outcome) {
    struct reader reader = {.nodes = nodes, .cells = cells};
    outcome[0] = outcome[1] = 0;
    if (!prepare(&reader, cells, records)) {
        outcome[1] = reader.fault;
        return;
    }
    for (int64_t record = 0; record < records; record++) {
        const uint8_t *at = bytes + ends[record] + frame_size, *end = bytes + ends[record + 1];
        reader.items_left = end - at;
        reader.steps_left = STEPS + STEPS_OF_A_BYTE * (end - at);
        if (past_record(&reader, nodes, at, end) == end) continue;
        if (reader.fault) {
            outcome[1] = reader.fault;
            return;
        }
        take_back(cells, cells, record - outcome[0]);
        doubtful[outcome[0]++] = (int32_t)record;
    }
    for (struct cell *cell = cells; cell < cells + cell_count; cell++) {
        int64_t size = cell->content_size, rows = cell->rows;
        if (cell->content_room > size + size / 8) shrink(&cell->content, size);
        if (cell->room > rows + rows / 8) shrink(&cell->values, values_size(cell, rows));
    }
}
