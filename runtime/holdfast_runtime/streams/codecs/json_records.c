/* The reader of JSON records, outside of Python and without the GIL: plainly good records into the buffers of Arrow
 * columns, by one pass over their bytes.
 *
 * A record is doubtful if anything in it is not what most producers write: its row is taken back, and json_judge.py,
 * which is the law, reads it. What is taken is read as the judge reads it, to the bit.
 * Built by hatch_build.py, called by compiled_json_reader.py. Numbers and times are read by text_scalars.h.
 *
 * Must not wait, nor read beyond a record's last byte: records come from anybody.
 */

#include "json_texts.h"
#include "base64_cells.h"
#include "decimal_cells.h"

/* Whoever changes a struct or a function below counts this up, and LOOPS_VERSION of compiled_json_reader.py with it. */
#define LOOPS_VERSION 3

/* Keys of one map, which are compared with each other. */
#define MOST_KEYS 64

/* What JSON has for a cell; the numbers are those of compiled_json_reader.py. */
enum op {
    OP_NOTHING,
    OP_BOOLEAN,
    OP_WHOLE,
    OP_FLOAT,
    OP_DOUBLE,
    OP_DECIMAL,
    OP_TEXT,
    OP_BASE64,
    OP_DATE,
    OP_TIME,
    OP_STRUCT,
    OP_LIST,
    OP_MAP,
};

/* There is one for each cell. */
struct node {
    int64_t op;
    int64_t scale;            /* of a decimal */
    const struct text *names; /* of the parts of a struct, as JSON may write them */
};

int32_t holdfast_loops_version(void) { return LOOPS_VERSION; }

void holdfast_free_memory(void *memory) { free(memory); }

/* A text with escapes, which stands for so many bytes. */
static bool put_escaped(struct reader *reader, struct cell *cell, const uint8_t *at, const uint8_t *end, int64_t size) {
    if (!has_room(reader, cell) || !has_content_room(reader, cell, size)) return false;
    uint8_t *out = cell->content + cell->content_size;
    unescape_all(at, end, out, out + size);
    keep_content(cell, size);
    return true;
}

/* A string behind its first quote, into its cell. */
static inline const uint8_t *past_text(struct reader *reader, const struct node *node, struct cell *cell,
                                       const uint8_t *start, const uint8_t *end) {
    int64_t size, micros;
    int32_t days;
    const uint8_t *at = past_string(start, end, &size);
    if (at == NULL) return NULL;
    const uint8_t *stop = at - 1;
    bool is_put = false;
    if (stop - start != size) {
        is_put = node->op == OP_TEXT && put_escaped(reader, cell, start, end, size);
    } else {
        switch (node->op) {
        case OP_TEXT: is_put = put_content(reader, cell, start, size, end); break;
        case OP_BASE64: is_put = put_base64(reader, cell, start, stop); break;
        case OP_DATE: is_put = date_of(start, size, &days) && put_whole(reader, cell, days); break;
        case OP_TIME: is_put = time_of(start, size, &micros) && put_whole(reader, cell, micros); break;
        case OP_DECIMAL: is_put = put_text_decimal(reader, cell, start, stop, node->scale); break;
        default: break;
        }
    }
    return is_put ? at : NULL;
}

/* A number that was read up to `stop`, into its cell. */
static inline bool put_number(struct reader *reader, const struct node *node, struct cell *cell,
                              const struct number *number, const uint8_t *at, const uint8_t *stop) {
    int64_t whole;
    double wide;
    float narrow;
    switch (node->op) {
    case OP_WHOLE: return integer_of(number, 64, &whole) && put_whole(reader, cell, whole);
    case OP_TIME:
        return integer_of(number, 64, &whole) && micros_of(whole, &whole) && put_whole(reader, cell, whole);
    case OP_DOUBLE: return double_of(number, &wide) && put_floating(reader, cell, (const uint8_t *)&wide, false);
    case OP_FLOAT: return float_of(number, &narrow) && put_floating(reader, cell, (const uint8_t *)&narrow, true);
    case OP_DECIMAL: return put_text_decimal(reader, cell, at, stop, node->scale);
    default: return false;
    }
}

static const uint8_t *past_cell(struct reader *reader, int64_t index, const uint8_t *at, const uint8_t *end);

/* An array behind its bracket. */
static const uint8_t *past_list(struct reader *reader, struct cell *cell, const uint8_t *at, const uint8_t *end) {
    if (!has_room(reader, cell)) return NULL;
    at = past_blanks(at, end);
    for (bool more = at == end || *at != ']'; more; more = goes_on(&at, end, ']')) {
        at = past_cell(reader, cell->inner[0], at, end);
        if (at == NULL) return NULL;
    }
    if (at == NULL) return NULL;
    ((int32_t *)cell->values)[cell->rows + 1] = (int32_t)reader->cells[cell->inner[0]].rows;
    keep_row(cell);
    return at + 1;
}

/* Whether the last key is among those since the row `first`. */
static bool is_repeated(const struct cell *keys, int64_t first) {
    const int32_t *ends = (const int32_t *)keys->values;
    int64_t last = keys->rows - 1, size = ends[last + 1] - ends[last];
    for (int64_t row = first; row < last; row++)
        if (ends[row + 1] - ends[row] == size &&
            memcmp(keys->content + ends[row], keys->content + ends[last], (size_t)size) == 0)
            return true;
    return false;
}

/* An object behind its brace, whose names are keys. */
static const uint8_t *past_map(struct reader *reader, struct cell *cell, const uint8_t *at, const uint8_t *end) {
    if (!has_room(reader, cell)) return NULL;
    struct cell *keys = reader->cells + cell->inner[0];
    const struct node *key = reader->nodes + cell->inner[0];
    int64_t start = keys->rows;
    at = past_blanks(at, end);
    for (bool more = at == end || *at != '}'; more; more = goes_on(&at, end, '}')) {
        if (at == end || *at != '"' || keys->rows - start == MOST_KEYS) return NULL;
        at = past_text(reader, key, keys, at + 1, end);
        if (at == NULL || is_repeated(keys, start)) return NULL; /* which value counts? */
        at = past_colon(at, end);
        if (at == NULL) return NULL;
        at = past_cell(reader, cell->inner[1], at, end);
        if (at == NULL) return NULL;
    }
    if (at == NULL) return NULL;
    ((int32_t *)cell->values)[cell->rows + 1] = (int32_t)keys->rows;
    keep_row(cell);
    return at + 1;
}

/* The part of a struct whose name is behind this quote, or their number; objects mostly have the order of the parts. */
static inline int64_t part_at(const struct text *names, int64_t count, int64_t likely, const uint8_t *at,
                              const uint8_t *end) {
    for (int64_t i = 0; i < count; i++) {
        const struct text *name = names + likely;
        if (end - at > name->size && at[name->size] == '"' && memcmp(at, name->start, (size_t)name->size) == 0)
            return likely;
        likely = likely + 1 == count ? 0 : likely + 1;
    }
    return count;
}

/* An object behind its brace, whose names are those of parts. */
static const uint8_t *past_struct(struct reader *reader, int64_t index, const uint8_t *at, const uint8_t *end) {
    struct cell *cell = reader->cells + index;
    const struct text *names = reader->nodes[index].names;
    int64_t row = cell->rows, count = cell->inner_count, likely = 0, size;
    if (!has_room(reader, cell)) return NULL;
    at = past_blanks(at, end);
    for (bool more = at == end || *at != '}'; more; more = goes_on(&at, end, '}')) {
        if (at == end || *at != '"') return NULL;
        const uint8_t *name = at + 1;
        int64_t part = part_at(names, count, likely, name, end);
        at = part < count ? name + names[part].size + 1 : past_string(name, end, &size);
        if (at == NULL || (part == count && at - name - 1 != size)) return NULL; /* which name do escapes stand for? */
        at = past_colon(at, end);
        if (at == NULL) return NULL;
        if (part < count) {
            if (reader->cells[cell->inner[part]].rows != row) return NULL; /* it was there before */
            at = past_cell(reader, cell->inner[part], at, end);
            likely = part + 1 == count ? 0 : part + 1;
        } else {
            at = past_value(at, end, DEEPEST);
        }
        if (at == NULL) return NULL;
    }
    if (at == NULL) return NULL;
    for (int64_t i = 0; i < count; i++) {
        struct cell *part = reader->cells + cell->inner[i];
        if (part->rows == row && !put_null(reader, part)) return NULL;
    }
    keep_row(cell);
    return at + 1;
}

/* A value, into its cell. */
static const uint8_t *past_cell(struct reader *reader, int64_t index, const uint8_t *at, const uint8_t *end) {
    const struct node *node = reader->nodes + index;
    struct cell *cell = reader->cells + index;
    struct number number;
    const uint8_t *start = at;
    if (at == end) return NULL;
    switch (*at) {
    case 'n': return (at = past_word(at, end, "null", 4)) != NULL && put_null(reader, cell) ? at : NULL;
    case 't':
    case 'f':
        at = *at == 't' ? past_word(at, end, "true", 4) : past_word(at, end, "false", 5);
        if (at == NULL || node->op != OP_BOOLEAN || !has_room(reader, cell)) return NULL;
        set_bit(cell->values, cell->rows, *start == 't');
        keep_row(cell);
        return at;
    case '"': return past_text(reader, node, cell, at + 1, end);
    case '{':
        if (node->op == OP_STRUCT) return past_struct(reader, index, at + 1, end);
        return node->op == OP_MAP ? past_map(reader, cell, at + 1, end) : NULL;
    case '[': return node->op == OP_LIST ? past_list(reader, cell, at + 1, end) : NULL;
    default:
        at = past_number(at, end, &number);
        return at != NULL && put_number(reader, node, cell, &number, start, at) ? at : NULL;
    }
}

static bool put_record(struct reader *reader, const uint8_t *at, const uint8_t *end) {
    at = past_blanks(at, end);
    if (at == end || *at != '{') return false;
    at = past_struct(reader, 0, at + 1, end);
    return at != NULL && past_blanks(at, end) == end;
}

void holdfast_read_json(RECORDS) {
    read_records(ends, bytes, records, frame_size, nodes, cells, cell_count, doubtful, outcome, put_record);
}
