// A tiny client, for the template of a driver.
const net = require("net");

module.exports = class Client {
  connect(host, port) {
    return new Promise((resolve, reject) => {
      this.socket = net.connect(port, host, resolve).on("error", reject);
    });
  }
  async call(expected, request) {
    this.socket.write(Buffer.concat([Buffer.from(request[0]), ...request.slice(1), Buffer.from("\r\n")]));
    const reply = await new Promise((resolve) => this.socket.once("data", resolve));
    const end = reply.indexOf("\r\n");
    const [word, ...values] = reply.subarray(0, end).toString().split(" ");
    if (word !== expected) throw new Error(word);
    return [...values, reply.subarray(end + 2, -2)];
  }
  async put(body, pri, delay, ttr) {
    const line = `put ${pri} ${delay} ${ttr} ${body.length}\r\n`;
    return (await this.call("INSERTED", [line, body]))[0];
  }
  async reserve() {
    const [id, , body] = await this.call("RESERVED", ["reserve"]);
    return { id, body };
  }
  async delete(id) {
    await this.call("DELETED", [`delete ${id}`]);
  }
};
