import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * A query of Nexmark in Flink SQL from Kafka to Kafka, in one process with two slots.
 *
 * It runs once for each topic that it is to write, and the last time counts, from when it runs to its end: by the
 * second time the JVM has compiled.
 *
 * Arguments: a folder for state, the topics with commas between them, settings (NAME=VALUE with commas between them), and
 * the statements, of which the last one inserts; `@out` in them is the topic.
 */
public final class FlinkKafka {
    private FlinkKafka() {}

    public static void main(String[] given) throws Exception {
        long began = 0;
        for (String out : given[1].split(",")) {
            began = run(given, out);
        }
        System.out.printf("%.6f %.6f%n", began / 1e3, System.currentTimeMillis() / 1e3);
        System.exit(0);
    }

    private static long run(String[] given, String out) throws Exception {
        Map<String, String> asked = new HashMap<>();
        for (String setting : given[2].split(",")) {
            asked.put(setting.split("=")[0], setting.split("=")[1]);
        }
        asked.put("execution.checkpointing.mode", "EXACTLY_ONCE");
        asked.put("execution.checkpointing.dir", "file://" + given[0] + "/checkpoints-" + out);
        asked.put("io.tmp.dirs", given[0]);
        asked.put("taskmanager.memory.managed.size", "512m");
        asked.put("taskmanager.numberOfTaskSlots", "2");
        asked.put("taskmanager.memory.network.min", "128m");
        asked.put("taskmanager.memory.network.max", "128m");
        asked.put("pipeline.object-reuse", "true");
        asked.put("table.local-time-zone", "UTC");
        Configuration settings = new Configuration();
        asked.forEach(settings::setString);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        TableResult made = null;
        for (int at = 3; at < given.length; at++) {
            made = tables.executeSql(given[at].replace("@out", out));
        }
        JobClient job = made.getJobClient().get();
        while (job.getJobStatus().get() != JobStatus.RUNNING && !job.getJobStatus().get().isTerminalState()) {
            Thread.sleep(5);
        }
        long began = System.currentTimeMillis();
        made.await();
        return began;
    }
}
