// A driver for a client library in JavaScript: replace LIBRARY.
const Client = require("LIBRARY");
let client;
const body = (word) => Buffer.from(word.slice(1), "hex");
const hex = (buffer) => "x" + Buffer.from(buffer).toString("hex");
const operations = {
  connect: async (host, port) => { client = new Client(); await client.connect({ host, port: Number(port) }); return []; },
  put: async (pri, delay, ttr, b) => [await client.put(body(b), Number(pri), Number(delay), Number(ttr))],
  reserve: async () => { const job = await client.reserve(); return [job.id, hex(job.body)]; },
  delete: async (id) => { await client.delete(id); return []; },
};
async function main() {
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    const [count, name, ...words] = line.split(" ");
    let answer = "unsupported";
    try {
      if (operations[name]) answer = ["ok", ...(await operations[name](...words))].join(" ");
    } catch (error) {
      answer = "error " + String(error && (error.message || error)).replace(/\s+/g, " ");
    }
    console.log("@beanstalk", count, answer);
  }
  process.exit(0);
}
main();
