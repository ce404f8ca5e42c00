// A driver for node-beanstalk.
const { Client } = require("node-beanstalk");

let client;
const bytes = { serialize: (value) => value, deserialize: (value) => value };
const connect = (host, port) => (client = new Client({ host, port, serializer: bytes })).connect();
const job = (found) => found && [found.id, found.payload];
const pairs = (stats) => stats && Object.entries(stats).flat();
const placed = ({ id, state }) => (state === "buried" ? state : [id]);
const released = (state) => state === "ready" || state === "delayed" || state;
const fits = (word) => !(Number(word) > Number.MAX_SAFE_INTEGER);
const argument = (word) => (word[0] === "x" ? Buffer.from(word.slice(1), "hex") : Number(word));
const hex = (value) => "x" + Buffer.from(value).toString("hex");
const written = (value) =>
  Number.isInteger(value) ? BigInt(value) : hex(Buffer.isBuffer(value) ? value : String(value));
const answered = (found) =>
  Array.isArray(found) ? ["ok", ...found.map(written)].join(" ") : found === true ? "ok" : found ?? "none";

const operations = {
  put: async (pri, delay, ttr, body) => placed(await client.put(body, ttr, pri, delay)),
  use: async (tube) => [await client.use(String(tube))],
  reserve: async () => job(await client.reserve()),
  "reserve-with-timeout": async (seconds) => job(await client.reserveWithTimeout(seconds)),
  "reserve-job": async (id) => job(await client.reserveJob(id)),
  delete: (id) => client.delete(id),
  release: async (...args) => released(await client.release(...args)),
  bury: (id, pri) => client.bury(id, pri),
  touch: (id) => client.touch(id),
  watch: async (tube) => [await client.watch(String(tube))],
  ignore: (tube) => client.ignore(String(tube)),
  peek: async (id) => job(await client.peek(id)),
  "peek-ready": async () => job(await client.peekReady()),
  "peek-delayed": async () => job(await client.peekDelayed()),
  "peek-buried": async () => job(await client.peekBuried()),
  kick: async (bound) => [await client.kick(bound)],
  "kick-job": (id) => client.kickJob(id),
  "stats-job": async (id) => pairs(await client.statsJob(id)),
  "stats-tube": async (tube) => pairs(await client.statsTube(String(tube))),
  stats: async () => pairs(await client.stats()),
  "list-tubes": () => client.listTubes(),
  "list-tube-used": async () => [await client.listTubeUsed()],
  "list-tubes-watched": () => client.listTubesWatched(),
  "pause-tube": (tube, delay) => client.pauseTube(String(tube), delay),
};

(async () => {
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    const [number, name, ...words] = line.split(" ");
    let answer = "unsupported";
    try {
      if (name === "connect") answer = (await connect(...words)) ?? "ok";
      else if (operations[name] && words.every(fits)) answer = answered(await operations[name](...words.map(argument)));
    } catch (error) {
      answer = `error ${error.message ?? error}`;
    }
    console.log("@beanstalk", number, answer);
  }
  process.exit();
})();
