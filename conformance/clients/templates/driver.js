// A driver for a client library in JavaScript: replace LIBRARY and its calls.
const Client = require("LIBRARY");

let client;
const argument = (word) => (word[0] === "x" ? Buffer.from(word.slice(1), "hex") : Number(word));
const operations = {
  put: async (pri, delay, ttr, body) => `ok ${await client.put(body, pri, delay, ttr)}`,
  reserve: async () => {
    const job = await client.reserve();
    return `ok ${job.id} x${job.body.toString("hex")}`;
  },
  delete: async (id) => (await client.delete(id)) ?? "ok",
};

(async () => {
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    const [number, name, ...words] = line.split(" ");
    let answer = "unsupported";
    try {
      if (name === "connect") answer = (await (client = new Client()).connect(...words)) ?? "ok";
      else if (operations[name]) answer = await operations[name](...words.map(argument));
    } catch (error) {
      answer = `error ${error.message ?? error}`;
    }
    console.log("@beanstalk", number, answer);
  }
  process.exit();
})();
