// What the serdes of Kafka Streams do with a record of a registry whose message they know: protobuf-java's parser and
// writer of a generated class, one record at a time. `java ProtobufSerde RECORDS_FILE`; prints rows per CPU second of
// parsing, of parsing and asking for all fields, of writing messages that are made for it, and of those that are there.

import bench.ClickOuterClass.Click;
import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.Timestamp;
import com.sun.management.OperatingSystemMXBean;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

public class ProtobufSerde {
    static final int WARM = 15, RUNS = 5, TIMES = 10;
    static final byte[] FRAME = {0, 0, 0, 0, 7, 0};
    static final OperatingSystemMXBean PROCESS = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    record Row(String adId, int campaign, long count, double price, long seconds, int nanos, String user) {}

    interface Way {
        long run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        List<byte[]> values = read(arguments[0]);
        double parsed = rate(values.size(), () -> {
            long sum = 0;
            for (byte[] value : values) sum += parse(value).getCount();
            return sum;
        });
        double touched = rate(values.size(), () -> {
            long sum = 0;
            for (byte[] value : values) {
                Row row = row(parse(value));
                sum += row.adId.length() + row.campaign + row.count + (long) row.price + row.seconds + row.nanos;
                sum += row.user == null ? 0 : row.user.length();
            }
            return sum;
        });
        List<Row> rows = new ArrayList<>();
        List<Click> clicks = new ArrayList<>();
        for (byte[] value : values) rows.add(row(parse(value)));
        for (Row row : rows) clicks.add(click(row));
        for (int at = 0; at < values.size(); at++)
            if (!Arrays.equals(written(clicks.get(at)), values.get(at))) throw new IllegalStateException();
        double made = rate(values.size(), () -> {
            long size = 0;
            for (Row row : rows) size += written(click(row)).length;
            return size;
        });
        double written = rate(values.size(), () -> {
            long size = 0;
            for (Click click : clicks) size += written(click).length;
            return size;
        });
        System.out.println(parsed + " " + touched + " " + made + " " + written);
    }

    static Click parse(byte[] value) throws Exception {
        return Click.parser().parseFrom(value, FRAME.length, value.length - FRAME.length);
    }

    static Row row(Click click) {
        Timestamp ts = click.getTs();
        String user = click.hasUser() ? click.getUser() : null;
        return new Row(click.getAdId(), click.getCampaign(), click.getCount(), click.getPrice(), ts.getSeconds(),
                ts.getNanos(), user);
    }

    static Click click(Row row) {
        Click.Builder click = Click.newBuilder()
                .setAdId(row.adId)
                .setCampaign(row.campaign)
                .setCount(row.count)
                .setPrice(row.price)
                .setTs(Timestamp.newBuilder().setSeconds(row.seconds).setNanos(row.nanos));
        if (row.user != null) click.setUser(row.user);
        return click.build();
    }

    static byte[] written(Click click) throws Exception {
        byte[] out = Arrays.copyOf(FRAME, FRAME.length + click.getSerializedSize());
        CodedOutputStream stream = CodedOutputStream.newInstance(out, FRAME.length, out.length - FRAME.length);
        click.writeTo(stream);
        return out;
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
