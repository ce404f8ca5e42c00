// A driver for fivebeans.
const Client = require("fivebeans").client;

let client;
const connect = (...address) =>
  new Promise((resolve, reject) => {
    (client = new Client(...address)).on("connect", resolve).on("error", reject).connect();
  });
const call = (method, ...args) =>
  new Promise((resolve, reject) => {
    client[method](...args, (error, ...found) => (error ? reject(error) : resolve(found)));
  });
const pairs = async (stats) => Object.entries((await stats)[0]).flat();
const number = (word) => (/^\d{16,}$/.test(word) ? word : Number(word));
const argument = (word) => (word[0] === "x" ? Buffer.from(word.slice(1), "hex") : number(word));
const hex = (value) => "x" + Buffer.from(value).toString("hex");
const written = (value) =>
  Buffer.isBuffer(value) ? hex(value) : /^\d+$/.test(value) ? value : hex(String(value));

const operations = {
  put: (...args) => call("put", ...args),
  use: (tube) => call("use", String(tube)),
  reserve: () => call("reserve"),
  "reserve-with-timeout": (seconds) => call("reserve_with_timeout", seconds),
  delete: (id) => call("destroy", id),
  release: (...args) => call("release", ...args),
  bury: (id, pri) => call("bury", id, pri),
  touch: (id) => call("touch", id),
  watch: (tube) => call("watch", String(tube)),
  ignore: (tube) => call("ignore", String(tube)),
  peek: (id) => call("peek", id),
  "peek-ready": () => call("peek_ready"),
  "peek-delayed": () => call("peek_delayed"),
  "peek-buried": () => call("peek_buried"),
  kick: (bound) => call("kick", bound),
  "kick-job": (id) => call("kick_job", id),
  "stats-job": (id) => pairs(call("stats_job", id)),
  "stats-tube": (tube) => pairs(call("stats_tube", String(tube))),
  stats: () => pairs(call("stats")),
  "list-tubes": async () => (await call("list_tubes"))[0],
  "list-tube-used": () => call("list_tube_used"),
  "list-tubes-watched": async () => (await call("list_tubes_watched"))[0],
  "pause-tube": (tube, delay) => call("pause_tube", String(tube), delay),
};

(async () => {
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    const [number, name, ...words] = line.split(" ");
    let answer = "unsupported";
    try {
      if (name === "connect") answer = (await connect(...words)) ?? "ok";
      else if (operations[name])
        answer = ["ok", ...(await operations[name](...words.map(argument))).map(written)].join(" ");
    } catch (error) {
      answer = `error ${error.message ?? error}`;
    }
    console.log("@beanstalk", number, answer);
  }
  process.exit();
})();
