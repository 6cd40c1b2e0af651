/* The cells that the readers of records in C fill: rows, nulls, texts, and what of a doubtful record is taken back.
 *
 * A reader keeps all cells in step: each part of a row gets one row, a null if need be. Must not know formats.
 */

#pragma once

#include "cell_kinds.h"
#include "utf8.h"

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

struct node; /* of a format's program */

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

/* The same of a row whose content, so many bytes, was written. */
static inline void keep_content(struct cell *cell, int64_t size) {
    cell->content_size += size;
    ((int32_t *)cell->values)[cell->rows + 1] = (int32_t)cell->content_size;
    keep_row(cell);
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
    keep_content(cell, size);
    return true;
}

/* A whole number, where the cell takes it. */
static inline bool put_whole(struct reader *reader, struct cell *cell, int64_t value) {
    if (!has_room(reader, cell)) return false;
    if (cell->kind == DOUBLE) {
        ((double *)cell->values)[cell->rows] = (double)value;
    } else if (cell->kind == FLOAT) {
        ((float *)cell->values)[cell->rows] = (float)value;
    } else {
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

/* Nothing more comes. */
static void finish(struct cell *cells, int64_t cell_count) {
    for (struct cell *cell = cells; cell < cells + cell_count; cell++) {
        int64_t size = cell->content_size, rows = cell->rows;
        if (cell->content_room > size + size / 8) shrink(&cell->content, size);
        if (cell->room > rows + rows / 8) shrink(&cell->values, values_size(cell, rows));
    }
}

/* The records behind `frame_size` bytes each into rows, except those that `doubtful` names, `outcome[0]` of them.
 * `outcome[1]` is a fault, with which there are none. Whoever calls frees what the cells point to. */
#define RECORDS                                                                                                        \
    const int32_t *ends, const uint8_t *bytes, int64_t records, int64_t frame_size, const struct node *nodes,          \
        struct cell *cells, int64_t cell_count, int32_t *doubtful, int64_t *outcome

/* That, where `put` puts one record into the first cell's row, and says whether it is good. */
static inline void read_records(RECORDS, bool (*put)(struct reader *, const uint8_t *, const uint8_t *)) {
    struct reader reader = {.nodes = nodes, .cells = cells};
    outcome[0] = outcome[1] = 0;
    if (!prepare(&reader, cells, records)) {
        outcome[1] = reader.fault;
        return;
    }
    for (int64_t record = 0; record < records; record++) {
        if (put(&reader, bytes + ends[record] + frame_size, bytes + ends[record + 1])) continue;
        if (reader.fault) {
            outcome[1] = reader.fault;
            return;
        }
        take_back(cells, cells, record - outcome[0]);
        doubtful[outcome[0]++] = (int32_t)record;
    }
    finish(cells, cell_count);
}
