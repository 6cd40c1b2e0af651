/* The reader of flat JSON records, outside of Python and without the GIL: plainly good records into the buffers of Arrow
 * columns, by one pass over their bytes and one over their strings.
 *
 * A record is doubtful if anything in it is not what most producers write: its columns are left as they were, and
 * json_judge.py, which is the law, reads it. What is taken is read as the judge reads it, to the bit.
 * Built by hatch_build.py, called by flat_reader.py. Numbers and times are read by text_scalars.h.
 *
 * Must not allocate or wait, nor read beyond a record's last byte: records come from anybody.
 */

#include "json_kinds.h"
#include "text_scalars.h"
#include "utf8.h"

/* Whoever changes a struct or a function below counts this up, and LOOPS_VERSION of flat_reader.py with it. */
#define LOOPS_VERSION 2

/* The first special byte of eight is found by the lowest bit that is set. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lowest byte of a word must be its first");

/* Arrays and objects that may be open at once in a field that no column has. */
#define DEEPEST 64

struct column {
    const uint8_t *name; /* without quotes, backslashes and control characters: JSON may write it as it is */
    int64_t name_size;
    int64_t kind;
    void *values;    /* of a STRING the ends: one more than rows, the first is 0 */
    int32_t *starts; /* of a STRING: where in the bytes of all records, or ~ of that if there are escapes */
    uint8_t *valid;
    int64_t present;   /* values that are not null */
    int64_t text_size; /* of a STRING: the bytes of all values without escapes */
    int64_t record;    /* the last in which the name was met */
};

int32_t holdfast_loops_version(void) { return LOOPS_VERSION; }

/* Each `past_` returns what follows the thing it is named after, NULL if there is no such thing. */

static inline const uint8_t *past_blanks(const uint8_t *at, const uint8_t *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) at++;
    return at;
}

static inline const uint8_t *past_word(const uint8_t *at, const uint8_t *end, const char *word, int64_t size) {
    return end - at >= size && memcmp(at, word, (size_t)size) == 0 ? at + size : NULL;
}

/* The number behind `\u`, -1 if there is none. */
static inline int32_t code_unit(const uint8_t *at, const uint8_t *end) {
    /* One more than the digit that a letter is. */
    static const uint8_t digits[256] = {
        ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
        ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
        ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
    };
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
    int32_t first = digits[at[2]], second = digits[at[3]], third = digits[at[4]], fourth = digits[at[5]];
    if (first == 0 || second == 0 || third == 0 || fourth == 0) return -1;
    return (first - 1) << 12 | (second - 1) << 8 | (third - 1) << 4 | (fourth - 1);
}

/* Goes past an escape, and returns the size of the UTF-8 it stands for, at most 4; 0 if it is none, or half a pair. */
static inline int64_t unescape(const uint8_t **at, const uint8_t *end, uint8_t *out) {
    static const uint8_t meanings[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    if (end - *at >= 2 && meanings[(*at)[1]]) {
        out[0] = meanings[(*at)[1]];
        *at += 2;
        return 1;
    }
    int32_t code = code_unit(*at, end);
    if (code < 0) return 0;
    *at += 6;
    if (code >= 0xD800 && code < 0xE000) {
        int32_t low = code_unit(*at, end);
        if (code >= 0xDC00 || low < 0xDC00 || low >= 0xE000) return 0;
        *at += 6;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    int64_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int64_t i = size - 1; i > 0; i--, code >>= 6) out[i] = (uint8_t)(0x80 | (code & 0x3F));
    out[0] = (uint8_t)((0xF0 << (4 - size)) | code);
    return size;
}

#define EACH(byte) ((byte) * 0x0101010101010101ULL)

/* A string behind its first quote; `size` gets its bytes without escapes. */
static inline const uint8_t *past_string(const uint8_t *at, const uint8_t *end, int64_t *size) {
    const uint8_t *start = at;
    int64_t saved = 0;
    for (;;) {
        for (uint64_t word; end - at >= 8; at += 8) {
            memcpy(&word, at, 8);
            uint64_t quotes = word ^ EACH('"'), slashes = word ^ EACH('\\');
            uint64_t special = (word | (word - EACH(0x20)) | (quotes - EACH(1)) | (slashes - EACH(1))) & EACH(0x80);
            if (special) {
                at += __builtin_ctzll(special) / 8;
                break;
            }
        }
        if (at == end || *at < 0x20) return NULL;
        if (*at == '"') {
            *size = at - start - saved;
            return at + 1;
        }
        if (*at == '\\') {
            do {
                uint8_t meaning[4];
                const uint8_t *escape = at;
                int64_t unescaped = unescape(&at, end, meaning);
                if (unescaped == 0) return NULL;
                saved += at - escape - unescaped;
            } while (at < end && *at == '\\');
        } else if (*at < 0x80) {
            at++;
        } else {
            do {
                int64_t character = character_size(at, end);
                if (character == 0) return NULL;
                at += character;
            } while (at < end && *at >= 0x80);
        }
    }
}

/* Any value, and the blanks behind it: what is skipped must be JSON, too. */
static const uint8_t *past_value(const uint8_t *at, const uint8_t *end, int deeper) {
    struct number number;
    int64_t size;
    if (at == end) return NULL;
    uint8_t close = *at == '{' ? '}' : ']';
    switch (*at) {
    case '"': at = past_string(at + 1, end, &size); break;
    case 'n': at = past_word(at, end, "null", 4); break;
    case 't': at = past_word(at, end, "true", 4); break;
    case 'f': at = past_word(at, end, "false", 5); break;
    case '{':
    case '[':
        if (deeper == 0) return NULL;
        at = past_blanks(at + 1, end);
        for (bool first = true; at < end && !(first && *at == close); first = false) {
            if (close == '}') {
                if (*at != '"' || (at = past_string(at + 1, end, &size)) == NULL) return NULL;
                at = past_blanks(at, end);
                if (at == end || *at != ':') return NULL;
                at = past_blanks(at + 1, end);
            }
            at = past_value(at, end, deeper - 1);
            if (at == NULL || at == end) return NULL;
            if (*at == close) break;
            if (*at != ',') return NULL;
            at = past_blanks(at + 1, end);
        }
        if (at == end) return NULL;
        at++;
        break;
    default: at = past_number(at, end, &number);
    }
    return at == NULL ? NULL : past_blanks(at, end);
}

static inline bool put_number(struct column *column, int64_t row, const struct number *number) {
    int64_t whole;
    switch (column->kind) {
    case TINYINT:
        if (!integer_of(number, 8, &whole)) return false;
        ((int8_t *)column->values)[row] = (int8_t)whole;
        return true;
    case SMALLINT:
        if (!integer_of(number, 16, &whole)) return false;
        ((int16_t *)column->values)[row] = (int16_t)whole;
        return true;
    case INT:
        if (!integer_of(number, 32, &whole)) return false;
        ((int32_t *)column->values)[row] = (int32_t)whole;
        return true;
    case BIGINT: return integer_of(number, 64, (int64_t *)column->values + row);
    case FLOAT: return float_of(number, (float *)column->values + row);
    case DOUBLE: return double_of(number, (double *)column->values + row);
    case TIMESTAMP: return integer_of(number, 64, &whole) && micros_of(whole, (int64_t *)column->values + row);
    default: return false;
    }
}

static inline bool put_text(struct column *column, int64_t row, const uint8_t *bytes, const uint8_t *start,
                            int64_t raw_size, int64_t size) {
    switch (column->kind) {
    case STRING:
        column->starts[row] = raw_size == size ? (int32_t)(start - bytes) : ~(int32_t)(start - bytes);
        ((int32_t *)column->values)[row + 1] = (int32_t)size;
        column->text_size += size;
        return true;
    case DATE: return raw_size == size && date_of(start, size, (int32_t *)column->values + row);
    case TIMESTAMP: return raw_size == size && time_of(start, size, (int64_t *)column->values + row);
    default: return false;
    }
}

/* A value of a column, which gets it. */
static inline const uint8_t *past_cell(struct column *column, int64_t row, const uint8_t *bytes, const uint8_t *at,
                                       const uint8_t *end) {
    if (at == end) return NULL;
    uint8_t bit = (uint8_t)(1u << (row & 7)), *truths = column->values;
    const uint8_t *start = at + 1;
    struct number number;
    int64_t size;
    switch (*at) {
    case 'n': return past_word(at, end, "null", 4);
    case 't':
    case 'f':
        if (column->kind != BOOLEAN) return NULL;
        truths[row >> 3] = (uint8_t)(*at == 't' ? truths[row >> 3] | bit : truths[row >> 3] & ~bit);
        at = *at == 't' ? past_word(at, end, "true", 4) : past_word(at, end, "false", 5);
        if (at == NULL) return NULL;
        break;
    case '"':
        at = past_string(start, end, &size);
        if (at == NULL || !put_text(column, row, bytes, start, at - start - 1, size)) return NULL;
        break;
    default:
        at = past_number(at, end, &number);
        if (at == NULL || !put_number(column, row, &number)) return NULL;
    }
    column->valid[row >> 3] |= bit;
    column->present++;
    return at;
}

/* The column of a name behind its first quote, or `count`; records mostly have the order of the schema. */
static inline int64_t column_at(const struct column *columns, int64_t count, int64_t likely, const uint8_t *at,
                                const uint8_t *end) {
    for (int64_t i = 0; i < count; i++) {
        const struct column *column = columns + likely;
        if (end - at > column->name_size && at[column->name_size] == '"' &&
            memcmp(at, column->name, (size_t)column->name_size) == 0)
            return likely;
        likely = likely + 1 == count ? 0 : likely + 1;
    }
    return count;
}

static bool put_record(struct column *columns, int64_t count, int64_t record, int64_t row, const uint8_t *bytes,
                       const uint8_t *at, const uint8_t *end) {
    int64_t likely = 0, size;
    at = past_blanks(at, end);
    if (at == end || *at != '{') return false;
    at = past_blanks(at + 1, end);
    for (bool first = true; at < end && !(first && *at == '}'); first = false) {
        if (*at != '"') return false;
        const uint8_t *name = at + 1;
        int64_t index = column_at(columns, count, likely, name, end);
        at = index < count ? name + columns[index].name_size + 1 : past_string(name, end, &size);
        if (at == NULL || (index == count && at - name - 1 != size)) return false; /* which name do escapes stand for? */
        at = past_blanks(at, end);
        if (at == end || *at != ':') return false;
        at = past_blanks(at + 1, end);
        if (index < count) {
            if (columns[index].record == record) return false;
            columns[index].record = record;
            at = past_cell(columns + index, row, bytes, at, end);
            likely = index + 1 == count ? 0 : index + 1;
        } else {
            at = past_value(at, end, DEEPEST);
        }
        if (at == NULL) return false;
        at = past_blanks(at, end);
        if (at < end && *at == '}') break;
        if (at == end || *at != ',') return false;
        at = past_blanks(at + 1, end);
    }
    return at < end && past_blanks(at + 1, end) == end;
}

/* Leaves the row to the next record. */
static void take_back(struct column *columns, int64_t count, int64_t row) {
    for (struct column *column = columns; column < columns + count; column++) {
        uint8_t bit = (uint8_t)(1u << (row & 7));
        column->present -= (column->valid[row >> 3] & bit) != 0;
        column->valid[row >> 3] &= (uint8_t)~bit;
        if (column->kind != STRING) continue;
        column->text_size -= ((int32_t *)column->values)[row + 1];
        ((int32_t *)column->values)[row + 1] = 0;
    }
}

/* The records into rows, each from its byte `first` on, except those that `doubtful` names; `doubts` says how many it may
 * name, and gets how many these are, -1 if they are more. All buffers of the columns are 0; after it, those of a STRING hold sizes in place of ends. */
void holdfast_read_records(const int32_t *ends, const uint8_t *bytes, int64_t records, int64_t first,
                           struct column *columns, int64_t count, int32_t *doubtful, int64_t *doubts) {
    int64_t most = *doubts;
    *doubts = 0;
    for (int64_t record = 0; record < records; record++) {
        int64_t row = record - *doubts;
        const uint8_t *start = bytes + ends[record] + first;
        if (put_record(columns, count, record, row, bytes, start, bytes + ends[record + 1])) continue;
        if (*doubts == most) {
            *doubts = -1;
            return;
        }
        take_back(columns, count, row);
        doubtful[(*doubts)++] = (int32_t)record;
    }
}

/* The values of a STRING column that was read into `text`, which has `text_size` bytes. */
void holdfast_copy_texts(const uint8_t *bytes, const uint8_t *bytes_end, struct column *column, int64_t rows,
                         uint8_t *text) {
    int32_t *ends = column->values;
    uint8_t *out = text;
    for (int64_t row = 0; row < rows; row++) {
        uint8_t *out_end = out + ends[row + 1];
        int32_t start = column->starts[row];
        ends[row + 1] = (int32_t)(out_end - text);
        if (start >= 0) {
            memcpy(out, bytes + start, (size_t)(out_end - out));
            out = out_end;
            continue;
        }
        for (const uint8_t *at = bytes + ~start; out < out_end;) {
            if (*at == '\\') {
                out += unescape(&at, bytes_end, out);
            } else if (out_end - out < 8) {
                *out++ = *at++;
            } else { /* as many bytes are left in the record, too */
                uint64_t word;
                memcpy(&word, at, 8);
                memcpy(out, &word, 8);
                uint64_t slashes = word ^ EACH('\\'), special = (slashes - EACH(1)) & ~slashes & EACH(0x80);
                int64_t plain = special ? __builtin_ctzll(special) / 8 : 8;
                at += plain;
                out += plain;
            }
        }
    }
}
