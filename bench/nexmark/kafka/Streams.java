import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Queries of Nexmark in Kafka Streams, of settings given as pairs NAME VALUE: bootstrap, query, guarantee, out, rows, warm, directory,
 * commit (milliseconds).
 *
 * Windows go by the times of records, which are event times. Prints when the bid after `warm` was taken and when all
 * were, in seconds since 1970.
 */
public final class Streams {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration LATE = Duration.ofSeconds(1);
    private static final BigDecimal RATE = new BigDecimal("0.908");
    private static final long DAY = 86_400_000;

    private Streams() {}

    public static void main(String[] arguments) throws Exception {
        Properties given = new Properties();
        for (int i = 0; i < arguments.length; i += 2) given.put(arguments[i], arguments[i + 1]);
        long rows = Long.parseLong(given.getProperty("rows")), warm = Long.parseLong(given.getProperty("warm"));
        AtomicLong taken = new AtomicLong(), began = new AtomicLong(), ended = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> bids = builder.stream("bid");
        KStream<String, String> out = switch (given.getProperty("query")) {
            case "q1" -> bids.mapValues(Streams::converted);
            case "q5" -> hottest(bids);
            case "q17" -> reported(bids);
            case "q18" -> last(builder, bids);
            case "q20" -> expanded(builder, bids);
            default -> throw new IllegalArgumentException(given.getProperty("query"));
        };
        out.to(given.getProperty("out"));
        // Behind the work: a record is counted when it has been through all of it.
        bids.foreach((key, value) -> {
            long number = taken.incrementAndGet();
            if (number == warm) began.set(System.currentTimeMillis());
            if (number == rows) { ended.set(System.currentTimeMillis()); done.countDown(); }
        });
        KafkaStreams streams = new KafkaStreams(builder.build(), settings(given));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        done.await();
        streams.close(Duration.ofSeconds(60));
        System.out.printf(Locale.ROOT, "%.3f %.3f%n", began.get() / 1e3, ended.get() / 1e3);
    }

    private static String converted(String bid) {
        JsonNode row = read(bid);
        return JSON.createObjectNode()
            .put("auction", row.get("auction").asLong())
            .put("bidder", row.get("bidder").asLong())
            .put("price", RATE.multiply(BigDecimal.valueOf(row.get("price").asLong())))
            .put("date_time", row.get("date_time").asText())
            .put("extra", row.get("extra").asText())
            .toString();
    }

    /** The second stage knows no end of its windows, so it tells each new best; the last one of a window holds. */
    private static KStream<String, String> hottest(KStream<String, String> bids) {
        return bids.groupByKey()
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), LATE).advanceBy(Duration.ofSeconds(2)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts")
                .withRetention(Duration.ofSeconds(11))
                .withKeySerde(Serdes.String()))
            .toStream()
            .map((window, count) -> KeyValue.pair(
                window.window().end(), ByteBuffer.allocate(16).putLong(count).putLong(Long.parseLong(window.key())).array()))
            .groupByKey(Grouped.with(Serdes.Long(), Serdes.ByteArray()))
            .reduce(Streams::hotter)
            .toStream()
            .map((end, best) -> KeyValue.pair(String.valueOf(end), JSON.createObjectNode()
                .put("auction", ByteBuffer.wrap(best).getLong(8))
                .put("num", ByteBuffer.wrap(best).getLong(0))
                .put("window_end", Instant.ofEpochMilli(end).toString())
                .toString()));
    }

    /** Number of bids and auction, both positive and big-endian: so bytes compare as they do. */
    private static byte[] hotter(byte[] one, byte[] other) {
        return Arrays.compareUnsigned(one, other) < 0 ? other : one;
    }

    /** Counts, bounds and sum of an auction and a day, as numbers of a fixed length. */
    private static KStream<String, String> reported(KStream<String, String> bids) {
        return bids.groupByKey()
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(DAY), LATE))
            .aggregate(
                () -> new byte[0], (key, bid, before) -> added(read(bid).get("price").asLong(), before),
                Materialized.<String, byte[], WindowStore<Bytes, byte[]>>as("reports").withValueSerde(Serdes.ByteArray()))
            .toStream()
            .map((window, report) -> KeyValue.pair(window.key(), told(
                Long.parseLong(window.key()), window.window().start(), ByteBuffer.wrap(report))));
    }

    private static byte[] added(long price, byte[] before) {
        ByteBuffer made = ByteBuffer.allocate(7 * 8);
        long[] old = new long[] {0, 0, 0, 0, Long.MAX_VALUE, Long.MIN_VALUE, 0};
        if (before.length > 0) ByteBuffer.wrap(before).asLongBuffer().get(old);
        made.putLong(old[0] + 1);
        made.putLong(old[1] + (price < 10_000 ? 1 : 0));
        made.putLong(old[2] + (price >= 10_000 && price < 1_000_000 ? 1 : 0));
        made.putLong(old[3] + (price >= 1_000_000 ? 1 : 0));
        made.putLong(Math.min(old[4], price)).putLong(Math.max(old[5], price)).putLong(old[6] + price);
        return made.array();
    }

    private static String told(long auction, long start, ByteBuffer report) {
        return JSON.createObjectNode()
            .put("auction", auction)
            .put("window_start", Instant.ofEpochMilli(start).toString())
            .put("window_end", Instant.ofEpochMilli(start + DAY).toString())
            .put("total_bids", report.getLong(0))
            .put("rank1_bids", report.getLong(8))
            .put("rank2_bids", report.getLong(16))
            .put("rank3_bids", report.getLong(24))
            .put("min_price", report.getLong(32))
            .put("max_price", report.getLong(40))
            .put("avg_price", (double) report.getLong(48) / report.getLong(0))
            .put("sum_price", report.getLong(48))
            .toString();
    }

    /** All bids of a bidder for an auction are in one partition, so a store of our own spares moving them. */
    private static KStream<String, String> last(StreamsBuilder builder, KStream<String, String> bids) {
        builder.addStateStore(Stores.timestampedKeyValueStoreBuilder(
            Stores.persistentTimestampedKeyValueStore("last"), Serdes.String(), Serdes.String()).withCachingEnabled());
        return bids.process(() -> new Processor<String, String, String, String>() {
            private ProcessorContext<String, String> to;
            private TimestampedKeyValueStore<String, String> last;

            @Override
            public void init(ProcessorContext<String, String> context) {
                to = context;
                last = context.getStateStore("last");
            }

            @Override
            public void process(Record<String, String> bid) {
                String key = bid.key() + "|" + read(bid.value()).get("bidder").asLong();
                ValueAndTimestamp<String> before = last.get(key);
                // Within a millisecond, a partition has them in their order.
                if (before == null || before.timestamp() <= bid.timestamp()) {
                    last.put(key, ValueAndTimestamp.make(bid.value(), bid.timestamp()));
                    to.forward(bid);
                }
            }
        }, "last");
    }

    private static KStream<String, String> expanded(StreamsBuilder builder, KStream<String, String> bids) {
        KTable<String, String> items = builder.<String, String>stream("auction")
            .filter((key, value) -> read(value).get("category").asLong() == 10)
            .toTable(Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("items").withCachingDisabled());
        return bids.join(items, (bid, item) -> {
            ObjectNode row = (ObjectNode) read(bid);
            JsonNode its = read(item);
            row.set("auction_date_time", its.get("date_time"));
            row.set("auction_extra", its.get("extra"));
            for (String name : new String[] {
                    "item_name", "description", "initial_bid", "reserve", "expires", "seller", "category"}) {
                row.set(name, its.get(name));
            }
            return row.toString();
        });
    }

    private static JsonNode read(String text) {
        try {
            return JSON.readTree(text);
        } catch (Exception error) {
            throw new IllegalArgumentException(text, error);
        }
    }

    private static Properties settings(Properties given) {
        Properties settings = new Properties();
        settings.put("application.id", given.getProperty("out"));
        settings.put("bootstrap.servers", given.getProperty("bootstrap"));
        settings.put("state.dir", given.getProperty("directory"));
        settings.put("processing.guarantee", given.getProperty("guarantee"));
        settings.put("num.stream.threads", "2");
        settings.put("replication.factor", "1");
        settings.put("auto.offset.reset", "earliest");
        settings.put("consumer.isolation.level", "read_committed");
        settings.put("consumer.max.poll.records", "5000");
        settings.put("producer.batch.size", "524288");
        settings.put("commit.interval.ms", given.getProperty("commit"));
        // Otherwise closed windows are told so seldom that in a short run the last ones are missing.
        settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", "50");
        settings.put("statestore.cache.max.bytes", "268435456");
        Serde<String> text = Serdes.String();
        settings.put("default.key.serde", text.getClass());
        settings.put("default.value.serde", text.getClass());
        return settings;
    }
}
