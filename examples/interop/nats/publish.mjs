// Publishes messages that a Waybill consumer on NATS JetStream reads, with nats.js.
//
//   node publish.mjs URL SUBJECT < events
//
// Each line of the input is an event as JSON: attributes, headers, contentType, and data in base64.
// With "structured" the event stands in the body as a whole; else its attributes are headers.
import { createInterface } from "node:readline";
import { connect, headers as newHeaders } from "nats";

const [url, subject] = process.argv.slice(2);

/** Encodes what the binding for NATS wants encoded: spaces, quotes, percent signs, and all beyond ASCII. */
const encode = (value) => value.replace(/[^\x21\x23\x24\x26-\x7e]+/gu, encodeURIComponent);

const connection = await connect({ servers: url });
const jetstream = connection.jetstream();
for await (const line of createInterface({ input: process.stdin })) {
  const { attributes, headers, contentType, data, structured } = JSON.parse(line);
  const all = newHeaders();
  for (const [name, value] of Object.entries(headers ?? {})) all.set(name, value);
  let body = Buffer.from(data, "base64");
  if (structured) {
    all.set("content-type", "application/cloudevents+json");
    body = Buffer.from(JSON.stringify({ ...attributes, datacontenttype: contentType, data_base64: data }));
  } else {
    all.set("ce-datacontenttype", encode(contentType));
    for (const [name, value] of Object.entries(attributes)) all.set(`ce-${name}`, encode(value));
  }
  await jetstream.publish(subject, body, { headers: all });
}
await connection.close();
