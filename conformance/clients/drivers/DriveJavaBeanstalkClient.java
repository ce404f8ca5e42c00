// A driver for JavaBeanstalkClient.
import com.surftools.BeanstalkClient.Job;
import com.surftools.BeanstalkClientImpl.ClientImpl;
import java.math.BigDecimal;
import java.util.*;
import java.util.stream.Stream;
public class DriveJavaBeanstalkClient {
    static ClientImpl client;
    static byte[] raw(String word) { return HexFormat.of().parseHex(word.substring(1)); }
    static String tube(String word) { return new String(raw(word)); }
    static int number(String word) { return new BigDecimal(word).intValueExact(); }
    static long whole(String word) { return new BigDecimal(word).longValueExact(); }
    static String hex(byte[] data) { return "x" + HexFormat.of().formatHex(data); }
    static String hex(String text) { return hex(text.getBytes()); }
    static String done(boolean is) { return is ? "ok" : "false"; }
    static String job(Job job) { return job == null ? "none" : "ok " + job.getJobId() + " " + hex(job.getData()); }
    static String list(List<String> words) { return "ok " + String.join(" ", words.stream().map(w -> hex(w)).toList()); }
    static Stream<String> pair(Map.Entry<String, String> one) { return Stream.of(one.getKey(), one.getValue()); }
    static String pairs(Map<String, String> stats) {
        return stats == null ? "none" : list(stats.entrySet().stream().flatMap(one -> pair(one)).toList());
    }
    static String answer(String[] w) {
        switch (w[1]) {
            case "connect": client = new ClientImpl(w[2], number(w[3])); return "ok";
            case "put": return "ok " + client.put(whole(w[2]), number(w[3]), number(w[4]), raw(w[5]));
            case "use": client.useTube(tube(w[2])); return "ok";
            case "reserve": return job(client.reserve(null));
            case "reserve-with-timeout": return job(client.reserve(number(w[2])));
            case "reserve-job": return job(client.reserveJob(whole(w[2])));
            case "delete": return done(client.delete(whole(w[2])));
            case "release": return done(client.release(whole(w[2]), whole(w[3]), number(w[4])));
            case "bury": return done(client.bury(whole(w[2]), whole(w[3])));
            case "touch": return done(client.touch(whole(w[2])));
            case "watch": return "ok " + client.watch(tube(w[2]));
            case "ignore": int left = client.ignore(tube(w[2])); return left < 0 ? "none" : "ok " + left;
            case "peek": return job(client.peek(whole(w[2])));
            case "peek-ready": return job(client.peekReady());
            case "peek-delayed": return job(client.peekDelayed());
            case "peek-buried": return job(client.peekBuried());
            case "kick": return "ok " + client.kick(number(w[2]));
            case "kick-job": return done(client.kickJob(whole(w[2])));
            case "stats-job": return pairs(client.statsJob(whole(w[2])));
            case "stats-tube": return pairs(client.statsTube(tube(w[2])));
            case "stats": return pairs(client.stats());
            case "list-tubes": return list(client.listTubes());
            case "list-tube-used": return "ok " + hex(client.listTubeUsed());
            case "list-tubes-watched": return list(client.listTubesWatched());
            case "pause-tube": return done(client.pauseTube(tube(w[2]), number(w[3])));
            default: return "unsupported";
        }
    }
    public static void main(String[] arguments) {
        for (Scanner lines = new Scanner(System.in); lines.hasNextLine(); ) {
            String[] words = lines.nextLine().split(" ");
            try { System.out.printf("@beanstalk %s %s%n", words[0], answer(words)); }
            catch (ArithmeticException error) { System.out.printf("@beanstalk %s unsupported%n", words[0]); }
            catch (RuntimeException error) { System.out.printf("@beanstalk %s error %s%n", words[0], error.getMessage()); }
        }
    }
}
