// What the serdes of Kafka Streams do with a record of a registry whose schema they know: Avro's own generic reader and
// writer, one record at a time. `java AvroSerde.java SCHEMA_FILE RECORDS_FILE`; prints rows per CPU second of both.

import com.sun.management.OperatingSystemMXBean;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

public class AvroSerde {
    static final int FRAME = 5, WARM = 15, RUNS = 5, TIMES = 10;
    static final OperatingSystemMXBean PROCESS = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    interface Way {
        long run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Schema schema = new Schema.Parser().parse(Files.readString(Path.of(arguments[0])));
        List<byte[]> values = read(arguments[1]);
        GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(schema);
        GenericDatumWriter<GenericRecord> writer = new GenericDatumWriter<>(schema);
        double decoded = rate(values.size(), () -> {
            BinaryDecoder decoder = null;
            long sum = 0;
            for (byte[] value : values) {
                decoder = DecoderFactory.get().binaryDecoder(value, FRAME, value.length - FRAME, decoder);
                sum += (Long) reader.read(null, decoder).get(2);
            }
            return sum;
        });
        List<GenericRecord> rows = new ArrayList<>();
        for (byte[] value : values)
            rows.add(reader.read(null, DecoderFactory.get().binaryDecoder(value, FRAME, value.length - FRAME, null)));
        double encoded = rate(values.size(), () -> {
            long size = 0;
            BinaryEncoder encoder = null;
            for (GenericRecord row : rows) {
                ByteArrayOutputStream out = new ByteArrayOutputStream();
                out.write(new byte[] {0, 0, 0, 0, 7});
                encoder = EncoderFactory.get().directBinaryEncoder(out, encoder);
                writer.write(row, encoder);
                size += out.toByteArray().length;
            }
            return size;
        });
        System.out.println(decoded + " " + encoded);
    }

    static List<byte[]> read(String path) throws Exception {
        List<byte[]> values = new ArrayList<>();
        try (DataInputStream in = new DataInputStream(new FileInputStream(path))) {
            while (true) {
                byte[] value = new byte[in.readInt()];
                in.readFully(value);
                values.add(value);
            }
        } catch (EOFException end) {
            return values;
        }
    }

    static double rate(int rows, Way way) throws Exception {
        double[] rates = new double[RUNS];
        for (int run = -WARM; run < RUNS; run++) {
            // Of the process: what it leaves behind is collected by another thread.
            long used = PROCESS.getProcessCpuTime();
            for (int time = 0; time < TIMES; time++)
                if (way.run() < rows) throw new IllegalStateException();
            used = PROCESS.getProcessCpuTime() - used;
            if (run >= 0) rates[run] = rows * 1e9 * TIMES / used;
        }
        Arrays.sort(rates);
        return rates[RUNS / 2];
    }
}
