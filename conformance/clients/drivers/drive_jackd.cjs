// A driver for jackd.
const Jackd = require("jackd").default || require("jackd");
let client;
const body = (word) => Buffer.from(word.slice(1), "hex");
const text = (word) => body(word).toString();
const hex = (value) => "x" + Buffer.from(value).toString("hex");
const job = (found) => [found.id, hex(found.payload)];
const n = Number;
const done = async (promise) => { await promise; return []; };
const pairs = (found) =>
  typeof found === "string"
    ? found.split("\n").filter((l) => l.includes(": ")).flatMap((l) => [hex(l.slice(0, l.indexOf(": "))), hex(l.slice(l.indexOf(": ") + 2))])
    : Object.entries(found).flatMap(([key, value]) => [hex(key), hex(String(value))]);
const names = (found) =>
  (typeof found === "string" ? found.split("\n").filter((l) => l.startsWith("- ")).map((l) => l.slice(2)) : found).map((name) => hex(String(name)));
const operations = {
  connect: async (host, port) => { client = new Jackd(); await client.connect({ host, port: n(port) }); return []; },
  put: async (priority, delay, ttr, b) => [await client.put(body(b), { priority: n(priority), delay: n(delay), ttr: n(ttr) })],
  use: (t) => done(client.use(text(t))),
  reserve: async () => job(await client.reserveRaw()),
  delete: (id) => done(client.delete(id)),
  release: (id, priority, delay) => done(client.release(id, { priority: n(priority), delay: n(delay) })),
  bury: (id, p) => done(client.bury(id, n(p))),
  touch: (id) => done(client.touch(id)),
  watch: async (t) => [await client.watch(text(t))],
  ignore: async (t) => [await client.ignore(text(t))],
  "kick": async (count) => [await client.kick(n(count))],
  "kick-job": (id) => done(client.kickJob(id)),
  "stats-job": async (id) => pairs(await client.statsJob(id)),
  "stats-tube": async (t) => pairs(await client.statsTube(text(t))),
  stats: async () => pairs(await client.stats()),
  "list-tubes": async () => names(await client.listTubes()),
  "list-tube-used": async () => [hex(await client.listTubeUsed())],
  "list-tubes-watched": async () => names(await client.listTubesWatched()),
  "pause-tube": (t, delay) => done(client.pauseTube(text(t), { delay: n(delay) })),
};
process.on("uncaughtException", () => {});
async function main() {
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    const [count, name, ...words] = line.split(" ");
    let answer = "unsupported";
    try {
      if (operations[name]) answer = ["ok", ...(await operations[name](...words))].join(" ");
    } catch (error) {
      answer = "error " + String(error && (error.message || error)).replace(/\s+/g, " ").slice(0, 200);
    }
    console.log("@beanstalk", count, answer);
  }
  process.exit(0);
}
main();
