// A driver for a client library in Java: replace LIBRARY and its calls.
import java.math.BigDecimal;
import java.util.*;

public class Driver {
    static LIBRARY client;

    static byte[] bytes(String word) { return HexFormat.of().parseHex(word.substring(1)); }
    static String hex(byte[] data) { return "x" + HexFormat.of().formatHex(data); }
    static long number(String word) { return new BigDecimal(word).longValueExact(); }

    static String answer(String[] w) throws Exception {
        switch (w[1]) {
            case "connect": client = new LIBRARY(w[2], (int) number(w[3])); return "ok";
            case "put": return "ok " + client.put(bytes(w[5]), number(w[2]), number(w[3]), number(w[4]));
            case "reserve": LIBRARY.Job job = client.reserve(); return "ok " + job.id + " " + hex(job.body);
            case "delete": client.delete(number(w[2])); return "ok";
            default: return "unsupported";
        }
    }
    public static void main(String[] arguments) {
        for (Scanner lines = new Scanner(System.in); lines.hasNextLine(); ) {
            String[] words = lines.nextLine().split(" ");
            try { System.out.printf("@beanstalk %s %s%n", words[0], answer(words)); }
            catch (ArithmeticException error) { System.out.printf("@beanstalk %s unsupported%n", words[0]); }
            catch (Exception error) { System.out.printf("@beanstalk %s error %s%n", words[0], error); }
        }
    }
}
