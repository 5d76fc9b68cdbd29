// Reads messages of one topic that Waybill publishes to RabbitMQ, with amqplib.
//
//   node read.mjs URL EXCHANGE TOPIC COUNT
//
// Prints "ready" once its queue is bound, then one line of JSON for each message. A message that
// is no CloudEvent in the binary mode ends the program.
import amqp from "amqplib";

const [url, exchange, topic, count] = process.argv.slice(2);
const prefix = "cloudEvents:";

/** Returns the event in a message: attributes from headers, content type and data as they are. */
function event({ content, properties }) {
  const attributes = {};
  const headers = {};
  for (const [name, value] of Object.entries(properties.headers)) {
    if (name.startsWith(prefix)) attributes[name.slice(prefix.length)] = value;
    else if (!name.startsWith("waybill-")) headers[name] = value;
  }
  for (const required of ["specversion", "id", "source", "type"]) {
    if (!attributes[required]) throw new Error(`attribute ${required} is missing`);
  }
  if (attributes.specversion !== "1.0") throw new Error(`specversion is ${attributes.specversion}`);
  if (attributes.id !== properties.messageId) throw new Error("the property message_id is not the id");
  return { attributes, headers, contentType: properties.contentType, data: content.toString("base64") };
}

const connection = await amqp.connect(url);
const channel = await connection.createChannel();
await channel.checkExchange(exchange);
const { queue } = await channel.assertQueue("", { exclusive: true });
await channel.bindQueue(queue, exchange, topic);
console.log("ready");

let left = Number(count);
await new Promise((resolve, reject) => {
  channel.consume(queue, (message) => {
    try {
      console.log(JSON.stringify(event(message)));
      channel.ack(message);
      if (--left === 0) resolve();
    } catch (error) {
      reject(error);
    }
  });
});
await channel.close();
await connection.close();
