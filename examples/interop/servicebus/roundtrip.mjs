// Reads one message from a subscription, prints it as JSON, and publishes an answer to a queue
// as a CloudEvent in the binary mode of the AMQP binding.
//
//   node roundtrip.mjs CONNECTION_STRING TOPIC SUBSCRIPTION QUEUE
import { ServiceBusClient } from "@azure/service-bus";

const [connection, topic, subscription, queue] = process.argv.slice(2);
const client = new ServiceBusClient(connection);

const receiver = client.createReceiver(topic, subscription);
const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 20_000 });
await receiver.completeMessage(message);
console.log(JSON.stringify({
  body: message.body,
  contentType: message.contentType,
  subject: message.subject,
  properties: message.applicationProperties,
}));

const sender = client.createSender(queue);
await sender.sendMessages({
  messageId: "answer-1",
  contentType: "application/json",
  body: { received: message.applicationProperties["cloudEvents:id"] },
  applicationProperties: {
    "cloudEvents:specversion": "1.0",
    "cloudEvents:id": "answer-1",
    "cloudEvents:source": "interop",
    "cloudEvents:type": "order.answered",
  },
});
await client.close();
