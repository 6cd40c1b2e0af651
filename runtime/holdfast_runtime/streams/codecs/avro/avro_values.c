/* The writer of Avro records, outside of Python and without the GIL: the buffers of Arrow columns into records, by one
 * pass over the rows.
 *
 * It writes what plain_writer.py, which is the law, writes, byte by byte, and stops at a row with a value that its
 * field can't hold, or that needs longer numbers. Built by hatch_build.py, called by compiled_writer.py.
 */

#include "avro_program.h"
#include "../row_cells.h"

#define LAST_NANO 86399999999999LL
#define MOST_DIGITS 38
#define MOST_WHOLE_BYTES 10

static inline bool put_whole(struct writer *writer, int64_t value) {
    if (!has_room(writer, MOST_WHOLE_BYTES)) return false;
    uint64_t rest = (uint64_t)value << 1 ^ (0 - (uint64_t)(value < 0));
    for (; rest >= 0x80; rest >>= 7) writer->out[writer->size++] = (uint8_t)(rest | 0x80);
    writer->out[writer->size++] = (uint8_t)rest;
    return true;
}

static inline bool put_content(struct writer *writer, const uint8_t *bytes, int64_t size) {
    return put_whole(writer, size) && put_bytes(writer, bytes, size);
}

static bool put_decimal(struct writer *writer, const struct node *node, const struct cell *cell, int64_t row) {
    __int128 value;
    memcpy(&value, cell->values + (cell->offset + row) * 16, 16);
    if (node->factor > MOST_DIGITS) return false;
    __int128 limit = (__int128)power_of_ten(MOST_DIGITS - node->factor);
    if (value >= limit || value <= -limit) return false;
    value *= (__int128)power_of_ten(node->factor);
    uint8_t bytes[16];
    int64_t least = 1;
    for (int i = 0; i < 16; i++) bytes[15 - i] = (uint8_t)(value >> (8 * i));
    uint8_t sign = value < 0 ? 0xFF : 0;
    for (int i = 0; i < 15; i++) {
        if (bytes[i] == sign && bytes[i + 1] >> 7 == sign >> 7) continue;
        least = 16 - i;
        break;
    }
    if (node->op == OP_BYTES) return put_content(writer, bytes + 16 - least, least);
    if (least > node->size || !has_room(writer, node->size)) return false;
    memset(writer->out + writer->size, sign, (size_t)(node->size - least));
    writer->size += node->size - least;
    return put_bytes(writer, bytes + 16 - least, least);
}

static bool put_symbol(struct writer *writer, const struct node *node, const uint8_t *text, int64_t size) {
    for (int64_t i = 0; i < node->symbol_count; i++)
        if (node->symbols[i].size == size && memcmp(node->symbols[i].start, text, (size_t)size) == 0)
            return put_whole(writer, i);
    return false;
}

/* A value of a row; false if it can't be written. */
static bool put_value(struct writer *writer, const struct node *node, int64_t row) {
    if (node->op == OP_CONSTANT) return put_bytes(writer, node->constant.start, node->constant.size);
    const struct cell *cell = writer->cells + node->cell;
    if (node->op == OP_UNION) {
        if (is_null(cell, row)) return node->null_branch >= 0 && put_whole(writer, node->null_branch);
        if (!put_whole(writer, node->branch)) return false;
        node = writer->nodes + node->inner[0];
    } else if (is_null(cell, row)) {
        return node->op == OP_NULL;
    }
    const int32_t *ends = (const int32_t *)cell->values + cell->offset + row;
    uint8_t truth;
    int64_t number;
    double wide;
    switch (node->op) {
    case OP_BOOLEAN:
        truth = bit_of(cell->values, cell->offset + row);
        return put_bytes(writer, &truth, 1);
    case OP_INT:
    case OP_LONG:
        number = whole_of(cell, row);
        if (cell->is_time && (number < 0 || number > LAST_NANO)) return false;
        if (node->factor != 1 && !scaled(number, node->factor, &number)) return false;
        if (node->op == OP_INT && (number < INT32_MIN || number > INT32_MAX)) return false;
        return put_whole(writer, number);
    case OP_FLOAT: return put_bytes(writer, cell->values + (cell->offset + row) * 4, 4);
    case OP_DOUBLE:
        if (cell->kind == DOUBLE) return put_bytes(writer, cell->values + (cell->offset + row) * 8, 8);
        wide = ((const float *)cell->values)[cell->offset + row];
        return put_bytes(writer, (const uint8_t *)&wide, 8);
    case OP_BYTES:
        if (cell->kind == DECIMAL) return put_decimal(writer, node, cell, row);
        return put_content(writer, cell->content + ends[0], ends[1] - ends[0]);
    case OP_FIXED:
        if (cell->kind == DECIMAL) return put_decimal(writer, node, cell, row);
        return ends[1] - ends[0] == node->size && put_bytes(writer, cell->content + ends[0], node->size);
    case OP_ENUM: return put_symbol(writer, node, cell->content + ends[0], ends[1] - ends[0]);
    case OP_RECORD:
        for (int64_t i = 0; i < node->inner_count; i++)
            if (!put_value(writer, writer->nodes + node->inner[i], row)) return false;
        return true;
    case OP_ARRAY:
    case OP_MAP:
        if (ends[0] < ends[1] && !put_whole(writer, ends[1] - ends[0])) return false;
        for (int64_t item = ends[0]; item < ends[1]; item++) {
            if (node->op == OP_MAP) {
                const struct cell *key = writer->cells + cell->inner[0];
                const int32_t *key_ends = (const int32_t *)key->values + key->offset + item;
                if (!put_content(writer, key->content + key_ends[0], key_ends[1] - key_ends[0])) return false;
            }
            if (!put_value(writer, writer->nodes + node->inner[0], item)) return false;
        }
        return put_whole(writer, 0);
    default: return node->op == OP_NULL;
    }
}

/* So many rows as records, each behind the frame: where they end, and their bytes, `outcome[0]` at `outcome[1]`, which
 * whoever calls frees. `outcome[2]` is the row that can't be written, -1 if there is none, -2 if there is no memory, -3
 * if there are more bytes than a column holds. */
void holdfast_write_avro(const struct node *nodes, const struct cell *cells, int64_t rows, const uint8_t *frame,
                         int64_t frame_size, int32_t *ends, int64_t *outcome) {
    struct writer writer = {.nodes = nodes, .cells = cells};
    outcome[2] = -1;
    ends[0] = 0;
    for (int64_t row = 0; row < rows && outcome[2] == -1; row++) {
        if (!put_bytes(&writer, frame, frame_size) || !put_value(&writer, nodes, row))
            outcome[2] = writer.no_memory ? -2 : row;
        else if (writer.size > INT32_MAX) outcome[2] = -3;
        ends[row + 1] = (int32_t)writer.size;
    }
    finish(&writer, outcome);
}
