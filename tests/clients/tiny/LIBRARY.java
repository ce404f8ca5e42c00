// A tiny client, for the template of a driver.
import java.io.*;
import java.net.Socket;

public class LIBRARY {
    public static class Job { long id; byte[] body; }

    private final Socket socket;

    public LIBRARY(String host, int port) throws IOException { socket = new Socket(host, port); }

    private String[] call(String expected, byte[]... parts) throws IOException {
        ByteArrayOutputStream request = new ByteArrayOutputStream();
        for (byte[] part : parts) { request.write(part); request.write('\r'); request.write('\n'); }
        socket.getOutputStream().write(request.toByteArray());
        StringBuilder line = new StringBuilder();
        while (line.indexOf("\r\n") < 0) line.append((char) socket.getInputStream().read());
        String[] words = line.toString().trim().split(" ");
        if (!words[0].equals(expected)) throw new IOException(words[0]);
        return words;
    }
    public long put(byte[] body, long pri, long delay, long ttr) throws IOException {
        String line = "put " + pri + " " + delay + " " + ttr + " " + body.length;
        return Long.parseLong(call("INSERTED", line.getBytes(), body)[1]);
    }
    public Job reserve() throws IOException {
        String[] words = call("RESERVED", "reserve".getBytes());
        Job job = new Job();
        job.id = Long.parseLong(words[1]);
        job.body = socket.getInputStream().readNBytes(Integer.parseInt(words[2]));
        socket.getInputStream().readNBytes(2);
        return job;
    }
    public void delete(long id) throws IOException { call("DELETED", ("delete " + id).getBytes()); }
}
