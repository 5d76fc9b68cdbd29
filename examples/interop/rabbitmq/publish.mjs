// Publishes messages that a Waybill consumer on RabbitMQ reads, with amqplib.
//
//   node publish.mjs URL EXCHANGE TOPIC < events
//
// Each line of the input is an event as JSON: attributes, headers, contentType, and data in base64.
// With "structured" the event stands in the body as a whole; else its attributes are headers.
import { createInterface } from "node:readline";
import amqp from "amqplib";

const [url, exchange, topic] = process.argv.slice(2);

const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
for await (const line of createInterface({ input: process.stdin })) {
  const { attributes, headers, contentType, data, structured } = JSON.parse(line);
  if (structured) {
    const body = { ...attributes, datacontenttype: contentType, data_base64: data };
    channel.publish(exchange, topic, Buffer.from(JSON.stringify(body)), {
      contentType: "application/cloudevents+json", headers, persistent: true,
    });
    continue;
  }
  const all = { ...headers };
  for (const [name, value] of Object.entries(attributes)) all[`cloudEvents:${name}`] = value;
  channel.publish(exchange, topic, Buffer.from(data, "base64"), { contentType, headers: all, persistent: true });
}
await channel.waitForConfirms();
await channel.close();
await connection.close();
