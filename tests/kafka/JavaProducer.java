// Kafka's own client for Java: what it does with a key is asked of it, not of somebody's copy of its hash.
//
// java -cp 'jars/*' JavaProducer.java BOOTSTRAP TOPIC: takes records as lines of stdin, `hexkey<TAB>hexvalue` with `-`
// for null, and says of each, in their order, `partition<TAB>offset`. Must not choose a partitioner: the default is what
// nearly all Java applications use.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class JavaProducer {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", arguments[0]);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
                var lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] cells = line.split("\t", -1);
                sent.add(producer.send(new ProducerRecord<>(arguments[1], bytes(cells[0]), bytes(cells[1]))));
            }
        }
        for (Future<RecordMetadata> future : sent) {
            RecordMetadata record = future.get();
            System.out.println(record.partition() + "\t" + record.offset());
        }
    }

    private static byte[] bytes(String cell) {
        return cell.equals("-") ? null : HexFormat.of().parseHex(cell);
    }
}
