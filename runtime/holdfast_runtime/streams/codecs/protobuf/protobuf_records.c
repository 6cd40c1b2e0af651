/* The reader of Protobuf messages, outside of Python and without the GIL: records into the buffers of Arrow columns, by
 * one pass over their bytes.
 *
 * A record that protobuf_judge.py, which is the law, can't read is doubtful: its columns are left as they were, and the
 * judge gives the reason. So is one whose fields are there twice, as the last would count. What is taken is read as the
 * judge reads it, to the bit. Built by hatch_build.py, called by compiled_reader.py.
 *
 * Must not read beyond a record's last byte, nor call itself as deep as a record says: records come from anybody.
 */

#include "protobuf_program.h"
#include "../record_cells.h"
#include "../varints.h"

/* Groups inside of each other that are passed over. */
#define DEEPEST 100
/* Fields of a message that are read; one with more is left to the judge, as compiled_reader.py knows. */
#define MOST_FIELDS 256
/* Pairs of a map that are compared with each other; one with more is left to the judge. */
#define MOST_PAIRS 64

/* Each `past_` returns what follows the thing it is named after; NULL if it is none, or if there is a fault. */

static inline const uint8_t *past_tag(const uint8_t *at, const uint8_t *end, uint64_t *tag) {
    const uint8_t *start = at;
    at = past_varint(at, end, tag);
    return at == NULL || at - start > 5 || *tag > UINT32_MAX || *tag < 8 || (*tag & 7) > FOUR_BYTES ? NULL : at;
}

/* A size, whose bytes are there. */
static inline const uint8_t *past_size(const uint8_t *at, const uint8_t *end, int64_t *size) {
    const uint8_t *start = at;
    uint64_t number;
    at = past_varint(at, end, &number);
    if (at == NULL || at - start > 5 || number > (uint64_t)(end - at)) return NULL;
    *size = (int64_t)number;
    return at;
}

static const uint8_t *past_plain(const uint8_t *at, const uint8_t *end, enum wire wire) {
    uint64_t number;
    int64_t size;
    switch (wire) {
    case VARINT: return past_varint(at, end, &number);
    case EIGHT_BYTES: return end - at < 8 ? NULL : at + 8;
    case FOUR_BYTES: return end - at < 4 ? NULL : at + 4;
    case SIZED:
        at = past_size(at, end, &size);
        return at == NULL ? NULL : at + size;
    default: return NULL;
    }
}

static const uint8_t *past_unknown(const uint8_t *at, const uint8_t *end, uint64_t tag) {
    uint64_t opened[DEEPEST];
    if ((tag & 7) != GROUP) return past_plain(at, end, tag & 7);
    int depth = 1;
    opened[0] = tag >> 3;
    while (depth > 0) {
        at = past_tag(at, end, &tag);
        if (at == NULL) return NULL;
        if ((tag & 7) == GROUP) {
            if (depth == DEEPEST) return NULL;
            opened[depth++] = tag >> 3;
        } else if ((tag & 7) == END_OF_GROUP) {
            if (opened[--depth] != tag >> 3) return NULL;
        } else {
            at = past_plain(at, end, tag & 7);
            if (at == NULL) return NULL;
        }
    }
    return at;
}

static bool read_fields(struct reader *reader, const struct node *node, const uint8_t *at, const uint8_t *end);

static bool put_symbol(struct reader *reader, const struct node *node, struct cell *cell, int32_t number) {
    int64_t i = 0; /* the first of several names */
    while (i < node->symbol_count && node->numbers[i] != number) i++;
    if (i == node->symbol_count) return false;
    const struct text *symbol = node->symbols + i;
    return put_content(reader, cell, symbol->start, symbol->size, symbol->start + symbol->size);
}

static bool put_unsigned(struct reader *reader, struct cell *cell, uint64_t bits) {
    if (cell->kind != DECIMAL) return bits <= INT64_MAX && put_whole(reader, cell, (int64_t)bits);
    unsigned __int128 value = bits;
    if (!has_room(reader, cell)) return false;
    memcpy(cell->values + cell->rows * 16, &value, 16);
    keep_row(cell);
    return true;
}

/* A number, or true or false, of these bits. */
static inline bool put_bits(struct reader *reader, const struct node *node, struct cell *cell, uint64_t bits) {
    switch (node->op) {
    case OP_BOOL:
        if (!has_room(reader, cell)) return false;
        set_bit(cell->values, cell->rows, bits != 0);
        keep_row(cell);
        return true;
    case OP_INT32:
    case OP_SFIXED32: return put_whole(reader, cell, (int32_t)bits);
    case OP_INT64:
    case OP_SFIXED64: return put_whole(reader, cell, (int64_t)bits);
    case OP_UINT32:
    case OP_FIXED32: return put_whole(reader, cell, (uint32_t)bits);
    case OP_SINT32: return put_whole(reader, cell, (int32_t)((uint32_t)bits >> 1 ^ (0 - ((uint32_t)bits & 1))));
    case OP_SINT64: return put_whole(reader, cell, (int64_t)(bits >> 1 ^ (0 - (bits & 1))));
    case OP_ENUM: return put_symbol(reader, node, cell, (int32_t)bits);
    case OP_FLOAT: return put_floating(reader, cell, (const uint8_t *)&bits, true);
    case OP_DOUBLE: return put_floating(reader, cell, (const uint8_t *)&bits, false);
    default: return put_unsigned(reader, cell, bits);
    }
}

static bool put_moment(struct reader *reader, struct cell *cell, const uint8_t *at, const uint8_t *end) {
    int64_t seconds = 0, nanos = 0;
    uint64_t tag, bits;
    while (at < end) {
        at = past_tag(at, end, &tag);
        if (at == NULL) return false;
        if (tag >> 3 > 2) {
            at = past_unknown(at, end, tag);
        } else {
            at = (tag & 7) == VARINT ? past_varint(at, end, &bits) : NULL;
            if (at == NULL) return false;
            if (tag >> 3 == 1) seconds = (int64_t)bits;
            else nanos = (int32_t)bits;
        }
        if (at == NULL) return false;
    }
    if (nanos < 0 || nanos > LAST_NANO || seconds < FIRST_SECOND || seconds > LAST_SECOND) return false;
    return put_whole(reader, cell, seconds * 1000000 + nanos / 1000);
}

/* A message, into the parts of a cell. */
static bool put_message(struct reader *reader, const struct node *node, struct cell *cell, const uint8_t *at,
                        const uint8_t *end) {
    if (!has_room(reader, cell) || !read_fields(reader, node, at, end)) return false;
    for (int64_t i = 0; i < node->absent_count; i++)
        if (!put_null(reader, reader->cells + node->absent[i])) return false;
    keep_row(cell);
    return true;
}

/* What has a size. */
static bool put_sized(struct reader *reader, const struct node *node, struct cell *cell, const uint8_t *at,
                      int64_t size, const uint8_t *end) {
    switch (node->op) {
    case OP_MESSAGE: return put_message(reader, node, cell, at, at + size);
    case OP_TIMESTAMP: return put_moment(reader, cell, at, at + size);
    case OP_WRAPPER: return read_fields(reader, node, at, at + size);
    default: return put_content(reader, cell, at, size, end);
    }
}

/* One value of a field, behind its tag. */
static inline const uint8_t *past_value(struct reader *reader, const struct node *node, struct cell *cell,
                                        const uint8_t *at, const uint8_t *end, enum wire wire) {
    uint64_t bits = 0;
    int64_t size;
    switch (wire) {
    case VARINT: at = past_varint(at, end, &bits); break;
    case EIGHT_BYTES:
        if (end - at < 8) return NULL;
        memcpy(&bits, at, 8);
        at += 8;
        break;
    case FOUR_BYTES:
        if (end - at < 4) return NULL;
        memcpy(&bits, at, 4);
        at += 4;
        break;
    default:
        at = past_size(at, end, &size);
        return at != NULL && put_sized(reader, node, cell, at, size, end) ? at + size : NULL;
    }
    return at != NULL && put_bits(reader, node, cell, bits) ? at : NULL;
}

/* What follows a tag of a list or a map: one item, or numbers side by side. */
static const uint8_t *past_items(struct reader *reader, const struct node *node, const uint8_t *at,
                                 const uint8_t *end, enum wire wire) {
    struct cell *cell = reader->cells + node->cell;
    int64_t size;
    if (node->shape == PAIRS) {
        at = wire == SIZED ? past_size(at, end, &size) : NULL;
        return at != NULL && read_fields(reader, node, at, at + size) ? at + size : NULL;
    }
    struct cell *item = reader->cells + cell->inner[0];
    enum wire expected = (enum wire)node->wire;
    if (wire == expected) return past_value(reader, node, item, at, end, wire);
    if (wire != SIZED) return NULL;
    at = past_size(at, end, &size);
    if (at == NULL) return NULL;
    for (const uint8_t *last = at + size; at != last;) {
        at = past_value(reader, node, item, at, last, expected);
        if (at == NULL) return NULL;
    }
    return at;
}

static bool same_key(const struct cell *key, int64_t left, int64_t right) {
    if (key->kind == TEXT) {
        const int32_t *ends = (const int32_t *)key->values;
        int64_t size = ends[left + 1] - ends[left];
        return ends[right + 1] - ends[right] == size &&
               memcmp(key->content + ends[left], key->content + ends[right], (size_t)size) == 0;
    }
    if (key->kind == BOOLEAN) return bit_of(key->values, left) == bit_of(key->values, right);
    return memcmp(key->values + left * key->width, key->values + right * key->width, (size_t)key->width) == 0;
}

/* Whether each key of a map is there once; only a map that is not small leaves that open. */
static bool has_own_keys(const struct cell *key, int64_t first) {
    if (key->rows - first > MOST_PAIRS) return false;
    for (int64_t i = first + 1; i < key->rows; i++)
        for (int64_t j = first; j < i; j++)
            if (same_key(key, i, j)) return false;
    return true;
}

/* What a field has at the end of its message: a list its end, another that is not there its default or null. */
static bool put_end(struct reader *reader, const struct node *node) {
    struct cell *cell = reader->cells + node->cell;
    if (node->shape == REPEATED || node->shape == PAIRS) {
        const struct cell *item = reader->cells + cell->inner[0];
        if (!has_room(reader, cell)) return false;
        int32_t *ends = (int32_t *)cell->values + cell->rows;
        if (node->shape == PAIRS && !has_own_keys(item, ends[0])) return false;
        ends[1] = (int32_t)item->rows;
        keep_row(cell);
        return true;
    }
    if (node->shape == OPTIONAL) return put_null(reader, cell);
    static const uint8_t nothing[1];
    return (enum wire)node->wire == SIZED ? put_sized(reader, node, cell, nothing, 0, nothing) : put_bits(reader, node, cell, 0);
}

/* The fields of a message, of a pair of a map, or of a wrapper: each of their cells gets its row. */
static bool read_fields(struct reader *reader, const struct node *node, const uint8_t *at, const uint8_t *end) {
    uint64_t present[MOST_FIELDS / 64], choices = 0, tag;
    int64_t next = 0, count = node->inner_count;
    memset(present, 0, (size_t)((count + 63) / 64 * 8));
    while (at < end) {
        at = past_tag(at, end, &tag);
        if (at == NULL) return false;
        int64_t number = (int64_t)(tag >> 3), i = next;
        const struct node *field = NULL;
        if (i < count && reader->nodes[node->inner[i]].number == number) {
            field = reader->nodes + node->inner[i];
        } else {
            int64_t low = 0, high = count; /* fields are sorted by number */
            while (low < high) {
                i = (low + high) / 2;
                if (reader->nodes[node->inner[i]].number < number) low = i + 1;
                else high = i;
            }
            i = low;
            if (i < count && reader->nodes[node->inner[i]].number == number) field = reader->nodes + node->inner[i];
        }
        if (field == NULL) {
            at = past_unknown(at, end, tag);
            if (at == NULL) return false;
            continue;
        }
        if (field->shape == REPEATED || field->shape == PAIRS) {
            at = past_items(reader, field, at, end, tag & 7);
            next = i;
        } else {
            if (present[i / 64] >> (i % 64) & 1 || (int64_t)(tag & 7) != field->wire) return false;
            if (field->choice > 0) {
                if (field->choice > 64 || choices >> (field->choice - 1) & 1) return false;
                choices |= 1ULL << (field->choice - 1);
            }
            at = past_value(reader, field, reader->cells + field->cell, at, end, tag & 7);
            next = i + 1;
        }
        if (at == NULL) return false;
        present[i / 64] |= 1ULL << (i % 64);
    }
    for (int64_t i = 0; i < count; i++) {
        const struct node *field = reader->nodes + node->inner[i];
        bool is_there = present[i / 64] >> (i % 64) & 1;
        if (!(is_there && field->shape <= OPTIONAL) && !put_end(reader, field)) return false;
    }
    return true;
}

static bool put_record(struct reader *reader, const uint8_t *at, const uint8_t *end) {
    return put_message(reader, reader->nodes, reader->cells, at, end);
}

void holdfast_read_protobuf(RECORDS) {
    read_records(ends, bytes, records, frame_size, nodes, cells, cell_count, doubtful, outcome, put_record);
}
