/* The two loops over single records that reading and writing Kafka need, outside of Python and without the GIL:
 * messages of librdkafka into the buffers of Arrow columns, and such columns into messages.
 *
 * Built by hatch_build.py, called by gathering.py and sending.py. Needs no headers of librdkafka: the addresses of its
 * functions are passed in, and the public part of its message, which its ABI keeps, stands below.
 *
 * Must not wait or check, nor allocate but by the client: sizes are measured first, buffers are the caller's.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whoever changes a struct or a function below counts this up, and LOOPS_VERSION of librdkafka.py with it. */
#define LOOPS_VERSION 3

struct message {
    int32_t err;
    void *topic;
    int32_t partition;
    const uint8_t *value;
    size_t value_size;
    const uint8_t *key;
    size_t key_size;
    int64_t offset;
    void *own;
};

struct functions {
    int64_t (*timestamp)(const struct message *, int32_t *kind);
    void (*destroy)(struct message *);
    int32_t (*headers)(const struct message *, void **headers);
    size_t (*header_count)(const void *headers);
    int32_t (*header)(const void *headers, size_t at, const char **name, const void **value, size_t *size);
    int32_t (*produce)(void *client, ...);
    void *(*headers_new)(size_t count);
    int32_t (*header_add)(void *headers, const char *name, ptrdiff_t name_size, const void *value, ptrdiff_t size);
    void (*headers_destroy)(void *headers);
};

struct sizes {
    int64_t records;
    int64_t key_bytes, null_keys;
    int64_t value_bytes, null_values;
    int64_t with_headers, headers;
    int64_t name_bytes;
    int64_t content_bytes, null_contents;
};

/* Arrow's layout of a binary column; `valid` is null where no value is. */
struct binary {
    int32_t *ends; /* one more than rows, the first is 0 */
    uint8_t *bytes;
    uint8_t *valid;
};

struct columns {
    int64_t *offsets;
    int64_t *timestamps;
    struct binary keys, values;
    int32_t *header_ends; /* null: no record has any */
    uint8_t *with_headers;
    struct binary names, contents;
};

/* What is to be written; `first` is where the rows begin in buffers that a slice shares. */
struct readable {
    const int32_t *ends;
    const uint8_t *bytes;
    const uint8_t *valid;
    int64_t first;
};

struct records {
    struct readable keys, values;
    const int64_t *timestamps;
    struct readable headers; /* a list column: which of the names and contents belong to a row; no ends: none do */
    struct readable names, contents;
};

int32_t holdfast_loops_version(void) { return LOOPS_VERSION; }

/* What the messages before the first that is an error, or is not below `end`, need. */
void holdfast_measure(const struct functions *client, struct message *const *messages, int64_t count, int64_t end,
                      struct sizes *sizes) {
    memset(sizes, 0, sizeof *sizes);
    int64_t at = 0;
    for (; at < count; at++) {
        const struct message *message = messages[at];
        if (message->err != 0 || message->offset >= end)
            break;
        sizes->key_bytes += (int64_t)message->key_size;
        sizes->value_bytes += (int64_t)message->value_size;
        sizes->null_keys += message->key == NULL;
        sizes->null_values += message->value == NULL;
        void *headers;
        if (client->headers(message, &headers) != 0)
            continue;
        size_t many = client->header_count(headers);
        sizes->with_headers += many > 0;
        sizes->headers += (int64_t)many;
        const char *name;
        const void *content;
        size_t size;
        for (size_t i = 0; i < many && client->header(headers, i, &name, &content, &size) == 0; i++) {
            sizes->name_bytes += (int64_t)strlen(name);
            if (content == NULL)
                sizes->null_contents++;
            else
                sizes->content_bytes += (int64_t)size;
        }
    }
    sizes->records = at;
}

static inline void put(struct binary *column, int64_t row, int32_t *end, const void *bytes, size_t size) {
    if (bytes != NULL) {
        memcpy(column->bytes + *end, bytes, size);
        *end += (int32_t)size;
        if (column->valid != NULL)
            column->valid[row >> 3] |= (uint8_t)(1u << (row & 7));
    }
    column->ends[row + 1] = *end;
}

/* The messages into columns of the measured sizes, whose bitmaps are all 0; destroys them. */
void holdfast_gather(const struct functions *client, struct message *const *messages, int64_t count,
                     struct columns *columns) {
    int32_t key_end = 0, value_end = 0, name_end = 0, content_end = 0, header_end = 0;
    columns->keys.ends[0] = columns->values.ends[0] = 0;
    if (columns->header_ends != NULL)
        columns->header_ends[0] = columns->names.ends[0] = columns->contents.ends[0] = 0;
    for (int64_t at = 0; at < count; at++) {
        struct message *message = messages[at];
        int32_t kind;
        columns->offsets[at] = message->offset;
        columns->timestamps[at] = client->timestamp(message, &kind);
        put(&columns->keys, at, &key_end, message->key, message->key_size);
        put(&columns->values, at, &value_end, message->value, message->value_size);
        if (columns->header_ends != NULL) {
            void *headers;
            size_t many = client->headers(message, &headers) == 0 ? client->header_count(headers) : 0;
            const char *name;
            const void *content;
            size_t size;
            for (size_t i = 0; i < many && client->header(headers, i, &name, &content, &size) == 0; i++) {
                put(&columns->names, header_end, &name_end, name, strlen(name));
                put(&columns->contents, header_end, &content_end, content, size);
                header_end++;
            }
            if (many > 0)
                columns->with_headers[at >> 3] |= (uint8_t)(1u << (at & 7));
            columns->header_ends[at + 1] = header_end;
        }
        client->destroy(message);
    }
}

/* Takes out and destroys each end of the partition behind which another message follows; returns how many are left. */
int64_t holdfast_without_ends(const struct functions *client, struct message **messages, int64_t count, int32_t end) {
    int64_t left = 0;
    for (int64_t at = 0; at < count; at++) {
        if (messages[at]->err == end && at + 1 < count)
            client->destroy(messages[at]);
        else
            messages[left++] = messages[at];
    }
    return left;
}

void holdfast_destroy(const struct functions *client, struct message *const *messages, int64_t count) {
    for (int64_t at = 0; at < count; at++)
        client->destroy(messages[at]);
}

/* The numbers by which librdkafka tells what follows in a call of rd_kafka_producev. */
enum { END = 0, TOPIC = 2, PARTITION = 3, VALUE = 4, KEY = 5, FLAGS = 7, TIMESTAMP = 8, HEADERS = 10 };
enum { COPY = 2 };

static inline const void *cell(const struct readable *column, int64_t row, size_t *size) {
    static const uint8_t nothing[1];
    row += column->first;
    *size = 0;
    if (column->valid != NULL && !(column->valid[row >> 3] >> (row & 7) & 1))
        return NULL;
    *size = (size_t)(column->ends[row + 1] - column->ends[row]);
    return *size > 0 ? column->bytes + column->ends[row] : nothing; /* librdkafka takes a null pointer for null */
}

/* The headers of a row as the client takes them over with the record; NULL: it has none, or `err` says why not. */
static void *headers_of(const struct functions *client, const struct records *records, int64_t row, int32_t *err) {
    const struct readable *lists = &records->headers;
    row += lists->first;
    if (lists->ends == NULL || (lists->valid != NULL && !(lists->valid[row >> 3] >> (row & 7) & 1)))
        return NULL;
    int64_t until = lists->ends[row + 1], at = lists->ends[row];
    if (at == until)
        return NULL;
    void *headers = client->headers_new((size_t)(until - at));
    for (; at < until && *err == 0; at++) {
        size_t name_size, size;
        const void *name = cell(&records->names, at, &name_size);
        const void *value = cell(&records->contents, at, &size);
        *err = client->header_add(headers, name == NULL ? "" : name, (ptrdiff_t)name_size, value, (ptrdiff_t)size);
    }
    if (*err == 0)
        return headers;
    client->headers_destroy(headers);
    return NULL;
}

/* Gives rows [from, until) to the client, which copies them; returns how many it took. `err` says why not all. */
int64_t holdfast_send(const struct functions *client, void *producer, void *topic, int32_t partition,
                      const struct records *records, int64_t from, int64_t until, int32_t *err) {
    *err = 0;
    for (int64_t row = from; row < until; row++) {
        size_t key_size, value_size;
        const void *key = cell(&records->keys, row, &key_size);
        const void *value = cell(&records->values, row, &value_size);
        void *headers = headers_of(client, records, row, err);
        if (*err != 0)
            return row - from;
        *err = client->produce(producer, TOPIC, topic, PARTITION, partition, FLAGS, COPY, KEY, key, key_size, VALUE,
                               value, value_size, TIMESTAMP, records->timestamps[row], headers == NULL ? END : HEADERS,
                               headers, END);
        if (*err != 0) {
            if (headers != NULL)
                client->headers_destroy(headers);
            return row - from;
        }
    }
    return until - from;
}
