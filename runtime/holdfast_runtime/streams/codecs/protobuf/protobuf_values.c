/* The writer of Protobuf messages, outside of Python and without the GIL: the buffers of Arrow columns into records, by
 * one pass over the rows.
 *
 * It writes what plain_writer.py, which is the law, writes, byte by byte, and stops at a row with a value that its field
 * can't hold. Built by hatch_build.py, called by compiled_writer.py.
 */

#include "protobuf_program.h"
#include "../row_cells.h"

#define MOST_VARINT_BYTES 10

static inline bool put_varint(struct writer *writer, uint64_t number) {
    if (!has_room(writer, MOST_VARINT_BYTES)) return false;
    for (; number >= 0x80; number >>= 7) writer->out[writer->size++] = (uint8_t)(number | 0x80);
    writer->out[writer->size++] = (uint8_t)number;
    return true;
}

static inline bool put_tag(struct writer *writer, const struct node *node, enum wire wire) {
    return put_varint(writer, (uint64_t)node->number << 3 | wire);
}

/* What was written since `start` gets its size before it, which mostly has one byte, for which there is room. */
static bool close_sized(struct writer *writer, int64_t start) {
    int64_t size = writer->size - start - 1, more = 0;
    for (int64_t rest = size >> 7; rest > 0; rest >>= 7) more++;
    if (more > 0) {
        if (!has_room(writer, more)) return false;
        memmove(writer->out + start + 1 + more, writer->out + start + 1, (size_t)size);
        writer->size += more;
    }
    uint8_t *at = writer->out + start;
    for (; size >= 0x80; size >>= 7) *at++ = (uint8_t)(size | 0x80);
    *at = (uint8_t)size;
    return true;
}

static inline bool open_sized(struct writer *writer, int64_t *start) {
    *start = writer->size;
    if (!has_room(writer, 1)) return false;
    writer->size++;
    return true;
}

/* The bits of a number; false if the field can't hold it. */
static bool bits_of(const struct node *node, const struct cell *cell, int64_t row, uint64_t *bits) {
    const uint8_t *at = cell->values + (cell->offset + row) * cell->width;
    const int32_t *ends = (const int32_t *)cell->values + cell->offset + row;
    int64_t number = cell->kind == WHOLE ? whole_of(cell, row) : 0;
    double wide;
    *bits = (uint64_t)number;
    switch (node->op) {
    case OP_BOOL: *bits = bit_of(cell->values, cell->offset + row); return true;
    case OP_UINT32:
    case OP_FIXED32: return number >= 0 && number <= UINT32_MAX;
    case OP_UINT64:
    case OP_FIXED64:
        if (cell->kind == DECIMAL) {
            int64_t high;
            memcpy(bits, at, 8);
            memcpy(&high, at + 8, 8);
            return high == 0;
        }
        return number >= 0;
    case OP_SINT32:
    case OP_SINT64: *bits = (uint64_t)number << 1 ^ (0 - (uint64_t)(number < 0)); return true;
    case OP_FLOAT: *bits = 0; memcpy(bits, at, 4); return true;
    case OP_DOUBLE:
        if (cell->kind == DOUBLE) {
            memcpy(bits, at, 8);
        } else {
            wide = *(const float *)at;
            memcpy(bits, &wide, 8);
        }
        return true;
    case OP_ENUM:
        for (int64_t i = 0; i < node->symbol_count; i++)
            if (node->symbols[i].size == ends[1] - ends[0] &&
                memcmp(node->symbols[i].start, cell->content + ends[0], (size_t)node->symbols[i].size) == 0) {
                *bits = (uint64_t)(int64_t)node->numbers[i];
                return true;
            }
        return false;
    default: return true;
    }
}

static bool put_bits(struct writer *writer, enum wire wire, uint64_t bits) {
    return wire == VARINT ? put_varint(writer, bits) : put_bytes(writer, (const uint8_t *)&bits, wire == EIGHT_BYTES ? 8 : 4);
}

static bool put_field(struct writer *writer, const struct node *node, int64_t row);

static bool put_message(struct writer *writer, const struct node *node, int64_t row) {
    uint64_t choices = 0;
    for (int64_t i = 0; i < node->inner_count; i++) {
        const struct node *field = writer->nodes + node->inner[i];
        if (field->choice > 0 && !is_null(writer->cells + field->cell, row)) {
            uint64_t choice = 1ULL << (field->choice - 1);
            if (choices & choice) return false;
            choices |= choice;
        }
        if (!put_field(writer, field, row)) return false;
    }
    return true;
}

static bool put_moment(struct writer *writer, const struct cell *cell, int64_t row) {
    int64_t micros = ((const int64_t *)cell->values)[cell->offset + row];
    int64_t seconds = micros / 1000000 - (micros % 1000000 < 0), nanos = (micros - seconds * 1000000) * 1000;
    if (seconds != 0 && !(put_varint(writer, 1 << 3) && put_varint(writer, (uint64_t)seconds))) return false;
    return nanos == 0 || (put_varint(writer, 2 << 3) && put_varint(writer, (uint64_t)nanos));
}

/* What has a size, with that before it. */
static bool put_sized(struct writer *writer, const struct node *node, const struct cell *cell, int64_t row) {
    int64_t start;
    if (node->op == OP_STRING || node->op == OP_BYTES) {
        const int32_t *ends = (const int32_t *)cell->values + cell->offset + row;
        return put_varint(writer, (uint64_t)(ends[1] - ends[0])) &&
               put_bytes(writer, cell->content + ends[0], ends[1] - ends[0]);
    }
    if (!open_sized(writer, &start)) return false;
    if (node->op == OP_TIMESTAMP) {
        if (!put_moment(writer, cell, row)) return false;
    } else if (node->op == OP_WRAPPER) {
        if (!put_field(writer, writer->nodes + node->inner[0], row)) return false;
    } else if (!put_message(writer, node, row)) {
        return false;
    }
    return close_sized(writer, start);
}

static bool put_pairs(struct writer *writer, const struct node *node, int64_t first, int64_t last) {
    for (int64_t item = first; item < last; item++) {
        int64_t start;
        if (!put_tag(writer, node, SIZED) || !open_sized(writer, &start)) return false;
        for (int64_t i = 0; i < 2; i++)
            if (!put_field(writer, writer->nodes + node->inner[i], item)) return false;
        if (!close_sized(writer, start)) return false;
    }
    return true;
}

static bool put_items(struct writer *writer, const struct node *node, const struct cell *cell, int64_t row) {
    const int32_t *ends = (const int32_t *)cell->values + cell->offset + row;
    if (node->shape == PAIRS) return put_pairs(writer, node, ends[0], ends[1]);
    const struct cell *items = writer->cells + cell->inner[0];
    enum wire wire = (enum wire)node->wire;
    int64_t start = 0;
    uint64_t bits;
    if (ends[0] == ends[1]) return true;
    if (node->packed && !(put_tag(writer, node, SIZED) && open_sized(writer, &start))) return false;
    for (int64_t item = ends[0]; item < ends[1]; item++) {
        if (is_null(items, item) || (!node->packed && !put_tag(writer, node, wire))) return false;
        if (wire == SIZED) {
            if (!put_sized(writer, node, items, item)) return false;
        } else if (!bits_of(node, items, item, &bits) || !put_bits(writer, wire, bits)) {
            return false;
        }
    }
    return !node->packed || close_sized(writer, start);
}

/* A field of a row; false if it can't be written. */
static bool put_field(struct writer *writer, const struct node *node, int64_t row) {
    const struct cell *cell = writer->cells + node->cell;
    enum wire wire = (enum wire)node->wire;
    uint64_t bits;
    if (is_null(cell, row)) return node->shape == OPTIONAL;
    if (node->shape == REPEATED || node->shape == PAIRS) return put_items(writer, node, cell, row);
    if (wire != SIZED) {
        if (!bits_of(node, cell, row, &bits)) return false;
        return (node->shape == IMPLICIT && bits == 0) || (put_tag(writer, node, wire) && put_bits(writer, wire, bits));
    }
    int64_t before = writer->size;
    if (!put_tag(writer, node, wire)) return false;
    int64_t start = writer->size;
    if (!put_sized(writer, node, cell, row)) return false;
    if (node->shape == IMPLICIT && writer->size == start + 1) writer->size = before; /* only its size, which is 0 */
    return true;
}

/* So many rows as records, each behind the frame: where they end, and their bytes, `outcome[0]` at `outcome[1]`, which
 * whoever calls frees. `outcome[2]` is the row that can't be written, -1 if there is none, -2 if there is no memory, -3
 * if there are more bytes than a column holds. */
void holdfast_write_protobuf(const struct node *nodes, const struct cell *cells, int64_t rows, const uint8_t *frame,
                             int64_t frame_size, int32_t *ends, int64_t *outcome) {
    struct writer writer = {.nodes = nodes, .cells = cells};
    outcome[2] = -1;
    ends[0] = 0;
    for (int64_t row = 0; row < rows && outcome[2] == -1; row++) {
        if (!put_bytes(&writer, frame, frame_size) || !put_message(&writer, nodes, row))
            outcome[2] = writer.no_memory ? -2 : row;
        else if (writer.size > INT32_MAX) outcome[2] = -3;
        ends[row + 1] = (int32_t)writer.size;
    }
    finish(&writer, outcome);
}
