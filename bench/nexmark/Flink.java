import java.io.BufferedWriter;
import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.TimeStampVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.RichParallelSourceFunction;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.TimestampType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * A query of Nexmark in Flink SQL, in one process with two slots.
 *
 * Each slot reads one of the two Arrow files of a stream, only the columns that the query needs, so that no engine pays
 * for making or parsing events. Timed, the query runs twice, and the second time counts, from its first
 * event to its end: then the JVM has compiled. Otherwise its answer goes into a file of JSON lines.
 *
 * Arguments: the SQL; a folder for state; a file for the answer, or "-" to time it; the folder of the side input, which
 * `side(key)` looks up in memory; then for each stream its name, its folder and its columns with commas between.
 */
public final class Flink {
    private static final AtomicLong BEGAN = new AtomicLong(Long.MAX_VALUE);
    private static final int CHUNK = 512;

    private Flink() {}

    public static void main(String[] given) throws Exception {
        boolean kept = !given[2].equals("-");
        run(given, "warm");
        if (!kept) {
            BEGAN.set(Long.MAX_VALUE);
            run(given, "counted");
        }
        System.out.printf("%.6f %.6f%n", BEGAN.get() / 1e3, System.currentTimeMillis() / 1e3);
        System.exit(0);
    }

    private static void run(String[] given, String name) throws Exception {
        Configuration settings = new Configuration();
        Map<String, String> asked = new HashMap<>();
        asked.put("state.backend.type", "rocksdb");
        asked.put("execution.checkpointing.incremental", "true");
        asked.put("execution.checkpointing.interval", "3s");
        asked.put("execution.checkpointing.mode", "EXACTLY_ONCE");
        asked.put("execution.checkpointing.dir", "file://" + given[1] + "/checkpoints-" + name);
        asked.put("io.tmp.dirs", given[1]);
        asked.put("taskmanager.memory.managed.size", "512m");
        asked.put("taskmanager.numberOfTaskSlots", "2");
        asked.put("taskmanager.memory.network.min", "128m");
        asked.put("taskmanager.memory.network.max", "128m");
        asked.put("pipeline.object-reuse", "true");
        asked.put("table.exec.mini-batch.enabled", "true");
        asked.put("table.exec.mini-batch.allow-latency", "2s");
        asked.put("table.exec.mini-batch.size", "50000");
        asked.put("table.local-time-zone", "UTC");
        asked.forEach(settings::setString);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.createTemporarySystemFunction("side", new SideInput(given[3]));
        for (int at = 4; at < given.length; at += 3) {
            add(env, tables, given[at], given[at + 1], given[at + 2].split(","));
        }
        Table found = tables.sqlQuery(given[0]);
        if (given[2].equals("-")) {
            Schema columns = Schema.newBuilder().fromResolvedSchema(found.getResolvedSchema()).build();
            TableDescriptor nothing = TableDescriptor.forConnector("blackhole").schema(columns).build();
            found.insertInto(nothing).execute().await();
        } else {
            write(found.execute(), Path.of(given[2]));
        }
    }

    /** Rows have their event time twice: whole as `date_time`, and in milliseconds, as Flink wants it, as `ts`. */
    private static void add(
            StreamExecutionEnvironment env, StreamTableEnvironment tables, String name, String folder, String[] columns) {
        RowType type = ArrowFile.typeOf(folder, columns);
        var rows = env.addSource(new ArrowFile(folder, columns), name, InternalTypeInfo.of(type));
        Schema.Builder schema = Schema.newBuilder();
        for (int at = 0; at < columns.length; at++) {
            schema.column(columns[at], DataTypes.of(type.getTypeAt(at)).notNull());
        }
        // Times ascend, but many rows have the same millisecond.
        schema.columnByExpression("ts", "CAST(date_time AS TIMESTAMP(3))").watermark("ts", "ts - INTERVAL '0.001' SECOND");
        tables.createTemporaryView(name, rows, schema.build());
    }

    private static void write(TableResult found, Path file) throws Exception {
        List<String> names = found.getResolvedSchema().getColumnNames();
        try (BufferedWriter out = Files.newBufferedWriter(file); var rows = found.collect()) {
            while (rows.hasNext()) {
                Row row = rows.next();
                if (row.getKind() == RowKind.INSERT || row.getKind() == RowKind.UPDATE_AFTER) {
                    List<String> parts = new ArrayList<>();
                    for (int at = 0; at < names.size(); at++) {
                        parts.add("\"" + names.get(at) + "\":" + json(row.getField(at)));
                    }
                    out.write("{" + String.join(",", parts) + "}\n");
                }
            }
        }
    }

    private static String json(Object value) {
        if (value == null || value instanceof Long || value instanceof Integer || value instanceof Double) {
            return String.valueOf(value);
        }
        return "\"" + value.toString().replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    /** A value for a key, from a map that each slot has. */
    public static final class SideInput extends ScalarFunction {
        private final String folder;
        private transient Map<Long, String> values;

        public SideInput(String folder) {
            this.folder = folder;
        }

        @Override
        public void open(FunctionContext context) throws Exception {
            values = new HashMap<>();
            for (int part = 0; Files.exists(Path.of(folder, part + ".arrow")); part++) {
                try (var in = new FileInputStream(folder + "/" + part + ".arrow");
                        var memory = new RootAllocator();
                        var reader = new ArrowFileReader(in.getChannel(), memory)) {
                    VectorSchemaRoot root = reader.getVectorSchemaRoot();
                    while (reader.loadNextBatch()) {
                        for (int row = 0; row < root.getRowCount(); row++) {
                            long key = ((BigIntVector) root.getVector("key")).get(row);
                            values.put(key, root.getVector("value").getObject(row).toString());
                        }
                    }
                }
            }
        }

        public String eval(Long key) {
            return values.get(key);
        }
    }

    /** Reads one file of a stream in each of its subtasks. */
    static final class ArrowFile extends RichParallelSourceFunction<RowData> {
        private final String folder;
        private final String[] columns;
        private volatile boolean open = true;

        ArrowFile(String folder, String[] columns) {
            this.folder = folder;
            this.columns = columns;
        }

        static RowType typeOf(String folder, String[] columns) {
            try (var in = new FileInputStream(folder + "/0.arrow");
                    var memory = new RootAllocator();
                    var reader = new ArrowFileReader(in.getChannel(), memory)) {
                var schema = reader.getVectorSchemaRoot().getSchema();
                LogicalType[] types = new LogicalType[columns.length];
                for (int at = 0; at < columns.length; at++) {
                    types[at] = switch (schema.findField(columns[at]).getType().getTypeID()) {
                        case Int -> new BigIntType(false);
                        case Timestamp -> new TimestampType(false, 6);
                        default -> new VarCharType(false, VarCharType.MAX_LENGTH);
                    };
                }
                return RowType.of(types, columns);
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        }

        @Override
        public void run(SourceContext<RowData> to) throws Exception {
            int part = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            try (var in = new FileInputStream(folder + "/" + part + ".arrow");
                    var memory = new RootAllocator();
                    var reader = new ArrowFileReader(in.getChannel(), memory)) {
                VectorSchemaRoot root = reader.getVectorSchemaRoot();
                BEGAN.accumulateAndGet(System.currentTimeMillis(), Math::min);
                while (open && reader.loadNextBatch()) {
                    emit(root, to);
                }
            }
        }

        private void emit(VectorSchemaRoot root, SourceContext<RowData> to) {
            FieldVector[] vectors = new FieldVector[columns.length];
            for (int at = 0; at < columns.length; at++) {
                vectors[at] = root.getVector(columns[at]);
            }
            for (int from = 0; open && from < root.getRowCount(); from += CHUNK) {
                int end = Math.min(from + CHUNK, root.getRowCount());
                synchronized (to.getCheckpointLock()) {
                    for (int row = from; row < end; row++) {
                        GenericRowData made = new GenericRowData(columns.length);
                        for (int at = 0; at < columns.length; at++) {
                            made.setField(at, value(vectors[at], row));
                        }
                        to.collect(made);
                    }
                }
            }
        }

        private static Object value(FieldVector vector, int row) {
            if (vector instanceof BigIntVector numbers) {
                return numbers.get(row);
            }
            if (vector instanceof TimeStampVector times) {
                long micros = times.get(row);
                return TimestampData.fromEpochMillis(
                    Math.floorDiv(micros, 1000), (int) Math.floorMod(micros, 1000L) * 1000);
            }
            return StringData.fromBytes(((VarCharVector) vector).get(row));
        }

        @Override
        public void cancel() {
            open = false;
        }
    }
}
