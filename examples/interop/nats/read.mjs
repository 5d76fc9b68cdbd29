// Reads messages of one subject that Waybill publishes to NATS, with nats.js.
//
//   node read.mjs URL SUBJECT COUNT
//
// Prints "ready" once it has subscribed, then one line of JSON for each message. A message that is
// no CloudEvent in the binary mode ends the program.
import { connect } from "nats";

const [url, subject, count] = process.argv.slice(2);
const prefix = "ce-";

/** Returns the event in a message. Values are percent-encoded, those of headers if they are named. */
function event(message) {
  const attributes = {};
  const headers = {};
  const encoded = message.headers.get("waybill-encoded").split(",");
  for (const [name, [value]] of message.headers) {
    if (name.startsWith(prefix)) attributes[name.slice(prefix.length)] = decodeURIComponent(value);
    else if (encoded.includes(name)) headers[name] = decodeURIComponent(value);
    else if (!/^(waybill-|Nats-|content-type$|traceparent$|tracestate$)/.test(name)) headers[name] = value;
  }
  for (const required of ["specversion", "id", "source", "type"]) {
    if (!attributes[required]) throw new Error(`attribute ${required} is missing`);
  }
  if (attributes.specversion !== "1.0") throw new Error(`specversion is ${attributes.specversion}`);
  const { datacontenttype: contentType, ...rest } = attributes;
  return { attributes: rest, headers, contentType, data: Buffer.from(message.data).toString("base64") };
}

const connection = await connect({ servers: url });
const messages = connection.subscribe(subject, { max: Number(count) });
await connection.flush();
console.log("ready");
for await (const message of messages) console.log(JSON.stringify(event(message)));
await connection.close();
