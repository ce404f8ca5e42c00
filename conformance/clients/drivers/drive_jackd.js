// A driver for jackd, which has ids as strings, takes a text, and sends a Buffer as JSON.
const Client = require("jackd");

let client;
const connect = async (host, port) => void (await (client = new Client()).connect({ host, port }));
const body = (raw) => (Buffer.from(String(raw)).equals(raw) ? String(raw) : raw);
const job = ({ id, payload }) => [id, payload];
const number = (word) => (/^\d{16,}$/.test(word) ? word : Number(word));
const argument = (word) => (word[0] === "x" ? Buffer.from(word.slice(1), "hex") : number(word));
const hex = (value) => "x" + Buffer.from(value).toString("hex");
const written = (value) =>
  Buffer.isBuffer(value) ? hex(value) : /^\d+$/.test(value) ? value : hex(String(value));

const operations = {
  put: async (priority, delay, ttr, raw) => [await client.put(body(raw), { priority, delay, ttr })],
  use: async (tube) => [await client.use(String(tube))],
  reserve: async () => job(await client.reserve()),
  "reserve-with-timeout": async (seconds) => job(await client.reserveWithTimeout(seconds)),
  "reserve-job": async (id) => job(await client.reserveJob(id)),
  delete: (id) => client.delete(id),
  release: (id, priority, delay) => client.release(id, { priority, delay }),
  bury: (id, priority) => client.bury(id, priority),
  touch: (id) => client.touch(id),
  watch: async (tube) => [await client.watch(String(tube))],
  ignore: async (tube) => [await client.ignore(String(tube))],
  peek: async (id) => job(await client.peek(id)),
  "peek-ready": async () => job(await client.peekReady()),
  "peek-delayed": async () => job(await client.peekDelayed()),
  "peek-buried": async () => job(await client.peekBuried()),
  kick: async (bound) => [await client.kick(bound)],
  "kick-job": (id) => client.kickJob(id),
  "stats-job": async (id) => [await client.statsJob(id)],
  "stats-tube": async (tube) => [await client.statsTube(String(tube))],
  stats: async () => [await client.stats()],
  "list-tubes": async () => [await client.listTubes()],
  "list-tube-used": async () => [await client.listTubeUsed()],
  "list-tubes-watched": async () => [await client.listTubesWatched()],
  quit: () => client.quit(),
  "pause-tube": (tube, delay) => client.pauseTube(String(tube), { delay }),
};

(async () => {
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    const [number, name, ...words] = line.split(" ");
    let answer = "unsupported";
    try {
      if (name === "connect") answer = (await connect(...words)) ?? "ok";
      else if (operations[name])
        answer = ["ok", ...((await operations[name](...words.map(argument))) ?? []).map(written)].join(" ");
    } catch (error) {
      answer = `error ${error.message ?? error}`;
    }
    console.log("@beanstalk", number, answer);
  }
  process.exit();
})();
