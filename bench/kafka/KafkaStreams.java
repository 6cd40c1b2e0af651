import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.time.Instant;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.ForeachAction;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The work of the benchmark in Kafka Streams, of settings given as pairs NAME VALUE:
 * bootstrap, work (stateless, enrich, windowed-count, join), values (json, text), guarantee, in, names, out, rows, warm,
 * lateness (minutes), within (minutes), directory, commit and linger (milliseconds; empty: as Kafka Streams has them).
 * Prints when the record after `warm` was taken and when all were, in seconds since 1970. Without rows it runs on.
 * With `text`, values are put together without being read: the least that could be done. Windows then go by the times of
 * records, else by the `ts` in their values.
 */
public class KafkaStreams {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    Properties given = new Properties();
    for (int i = 0; i < arguments.length; i += 2) given.put(arguments[i], arguments[i + 1]);
    long rows = Long.parseLong(given.getProperty("rows")), warm = Long.parseLong(given.getProperty("warm"));
    AtomicLong taken = new AtomicLong(), began = new AtomicLong(), ended = new AtomicLong();
    CountDownLatch done = new CountDownLatch(1);
    StreamsBuilder builder = new StreamsBuilder();
    boolean joined = given.getProperty("work").equals("join");
    boolean timed =
        (joined || given.getProperty("work").equals("windowed-count")) && given.getProperty("values").equals("json");
    Consumed<String, String> by = timed
        ? Consumed.with((record, before) -> Instant.parse(read((String) record.value()).get("ts").asText()).toEpochMilli())
        : Consumed.as("in");
    KStream<String, String> in = builder.stream(given.getProperty("in"), by);
    KStream<String, String> other = joined ? builder.stream(given.getProperty("names"), by) : null;
    KStream<String, String> out = switch (given.getProperty("work")) {
      case "stateless" -> in.mapValues(KafkaStreams::kept).filter((key, value) -> value != null);
      case "windowed-count" -> counted(in, Duration.ofMinutes(Long.parseLong(given.getProperty("lateness"))));
      case "join" -> paired(in, other, given);
      default -> enriched(builder, in, given);
    };
    out.to(given.getProperty("out"));
    // Behind the work: a record is counted when it has been through all of it.
    ForeachAction<String, String> count = (key, value) -> {
      long number = taken.incrementAndGet();
      if (number == warm) began.set(System.currentTimeMillis());
      if (number == rows) { ended.set(System.currentTimeMillis()); done.countDown(); }
    };
    in.foreach(count);
    if (joined) other.foreach(count);
    var streams = new org.apache.kafka.streams.KafkaStreams(builder.build(), settings(given));
    streams.setUncaughtExceptionHandler(error -> {
      // Otherwise nobody would wake up who waits for the rows.
      error.printStackTrace();
      Runtime.getRuntime().halt(1);
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    streams.start();
    done.await();
    streams.close(Duration.ofSeconds(60));
    System.out.printf(Locale.ROOT, "%.3f %.3f%n", began.get() / 1e3, ended.get() / 1e3);
  }

  private static KStream<String, String> enriched(StreamsBuilder builder, KStream<String, String> in, Properties given) {
    KTable<String, String> names = builder.table(given.getProperty("names"),
        Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("names").withCachingDisabled());
    return in.leftJoin(names, given.getProperty("values").equals("text") ? KafkaStreams::glued : KafkaStreams::named);
  }

  private static KStream<String, String> counted(KStream<String, String> in, Duration grace) {
    Duration size = Duration.ofMinutes(1);
    return in.groupByKey()
        .windowedBy(TimeWindows.ofSizeAndGrace(size, grace))
        .emitStrategy(EmitStrategy.onWindowClose())
        .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts")
            .withRetention(size.plus(grace))
            .withKeySerde(Serdes.String()))
        .toStream()
        .map(KafkaStreams::told);
  }

  private static KStream<String, String> paired(
      KStream<String, String> orders, KStream<String, String> payments, Properties given) {
    Duration within = Duration.ofMinutes(Long.parseLong(given.getProperty("within")));
    Duration grace = Duration.ofMinutes(Long.parseLong(given.getProperty("lateness")));
    return orders.join(
        payments, KafkaStreams::paid, JoinWindows.ofTimeDifferenceAndGrace(within, grace),
        StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()));
  }

  private static String paid(String order, String payment) {
    ObjectNode row = (ObjectNode) read(order);
    row.set("code", read(payment).get("code"));
    return row.toString();
  }

  private static KeyValue<String, String> told(Windowed<String> window, Long count) {
    return KeyValue.pair(window.key(), JSON.createObjectNode()
        .put("key", window.key())
        .put("window_start", window.window().startTime().toString())
        .put("window_end", window.window().endTime().toString())
        .put("n", count)
        .toString());
  }

  private static String named(String event, String name) {
    ObjectNode row = (ObjectNode) read(event);
    row.set("name", name == null ? null : read(name).get("name"));
    return row.toString();
  }

  private static String glued(String event, String name) {
    String field = name == null ? "\"name\":null}" : name.substring(name.indexOf("\"name\":"));
    return event.substring(0, event.length() - 1) + "," + field;
  }

  private static String kept(String click) {
    JsonNode row = read(click);
    double price = row.get("price").asDouble();
    long count = row.get("count").asLong();
    if (price < 25 || count % 10 == 0) return null;
    return JSON.createObjectNode()
        .put("ad_id", row.get("ad_id").asText())
        .put("campaign", row.get("campaign").asText().toUpperCase(Locale.ROOT))
        .put("ts", row.get("ts").asText())
        .put("worth", price * count)
        .put("count", count)
        .toString();
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
    if (!given.getProperty("commit").isEmpty()) settings.put("commit.interval.ms", given.getProperty("commit"));
    if (!given.getProperty("linger").isEmpty()) settings.put("producer.linger.ms", given.getProperty("linger"));
    // Otherwise closed windows are told so seldom that in a short run the last ones are missing.
    settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", "50");
    Serde<String> text = Serdes.String();
    settings.put("default.key.serde", text.getClass());
    settings.put("default.value.serde", text.getClass());
    return settings;
  }
}
