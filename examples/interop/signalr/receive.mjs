// Receives what Waybill pushes with @microsoft/signalr.
//
//   node receive.mjs URL TOKEN METHOD…
//
// Connects with the token, prints each call of one of the methods as a line of JSON, and connects
// again when it is cut off, with the id of its last message. It ends when its input does.

import { HubConnectionBuilder, LogLevel } from "@microsoft/signalr";

const [url, token, ...methods] = process.argv.slice(2);
let last = "";
let stopped = false;

async function connect() {
  const address = new URL(url);
  if (last !== "") address.searchParams.set("lastEventId", last);
  const connection = new HubConnectionBuilder()
    .withUrl(address.href, { accessTokenFactory: () => token })
    .configureLogging(LogLevel.None)
    .build();

  const print = (method, args) => console.log(JSON.stringify({ method, args }));
  connection.on("connected", (id, place) => {
    if (place) last = place;
    print("connected", [id]);
  });
  connection.on("reset", (reason, place) => {
    last = place;
    print("reset", [reason]);
  });
  for (const method of methods) {
    connection.on(method, (payload, meta) => {
      last = meta.id;
      print(method, [payload, meta]);
    });
  }
  connection.onclose(() => {
    if (!stopped) connect();
  });
  process.stdin.once("end", () => {
    stopped = true;
    connection.stop();
  });
  await connection.start();
}

process.stdin.resume();
connect().catch((error) => {
  console.log(JSON.stringify({ method: "refused", args: [error.message] }));
  process.exit(1);
});
