/* The cells that the writers of records in C read, and the bytes that they write.
 *
 * A writer walks over rows; a part of a row has its own rows. Must not know formats.
 */

#include "cell_kinds.h"

struct node; /* of a format's program */

/* A column, or a part of one. */
struct cell {
    int64_t kind;
    int64_t width; /* the bytes of a value of a fixed size */
    int64_t is_time; /* of a day */
    const int32_t *inner;
    const uint8_t *values; /* or the ends */
    const uint8_t *content;
    const uint8_t *valid; /* NULL if there is no null */
    int64_t offset;       /* of the first row in all of these */
};

struct writer {
    const struct node *nodes;
    const struct cell *cells;
    uint8_t *out;
    int64_t size, room;
    bool no_memory;
};

static bool make_room(struct writer *writer, int64_t size) {
    int64_t room = writer->size + size;
    if (room < 2 * writer->room) room = 2 * writer->room;
    uint8_t *larger = realloc(writer->out, (size_t)room);
    if (larger == NULL) {
        writer->no_memory = true;
        return false;
    }
    writer->out = larger;
    writer->room = room;
    return true;
}

static inline bool has_room(struct writer *writer, int64_t size) {
    return __builtin_expect(size <= writer->room - writer->size, true) || make_room(writer, size);
}

static inline bool put_bytes(struct writer *writer, const uint8_t *bytes, int64_t size) {
    if (!has_room(writer, size)) return false;
    if (size > 0) memcpy(writer->out + writer->size, bytes, (size_t)size);
    writer->size += size;
    return true;
}

static inline bool is_null(const struct cell *cell, int64_t row) {
    return cell->kind == NOTHING || (cell->valid != NULL && !bit_of(cell->valid, cell->offset + row));
}

static inline int64_t whole_of(const struct cell *cell, int64_t row) {
    const uint8_t *at = cell->values + (cell->offset + row) * cell->width;
    switch (cell->width) {
    case 1: return *(const int8_t *)at;
    case 2: return *(const int16_t *)at;
    case 4: return *(const int32_t *)at;
    default: return *(const int64_t *)at;
    }
}

/* What was written: `outcome[0]` bytes at `outcome[1]`, which whoever calls frees. */
static void finish(struct writer *writer, int64_t *outcome) {
    uint8_t *smaller = writer->out == NULL ? NULL : realloc(writer->out, writer->size > 0 ? (size_t)writer->size : 1);
    outcome[0] = writer->size;
    outcome[1] = (int64_t)(intptr_t)(smaller == NULL ? writer->out : smaller);
}
