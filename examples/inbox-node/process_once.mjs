// Process each message once, with the inbox service and what Node.js 18 brings along.
//
//     waybill inbox --store memory:
//     INBOX_URL=http://127.0.0.1:8080 node process_once.mjs
//
// For each message: try-begin leases its key, the work is done while the lease is renewed, and
// mark-processed says that it is done. What fails is released, so that the next delivery can try
// again. The work may still happen twice: if the process dies after the work and before the mark.

import { createHash } from 'node:crypto';
import { pathToFileURL } from 'node:url';

const url = process.env.INBOX_URL ?? 'http://127.0.0.1:8080';
const token = process.env.INBOX_TOKEN;
const leaseSeconds = 60;

// ask throws for whatever is not an answer: without one nothing may be processed.
async function ask(operation, body) {
  const headers = { 'Content-Type': 'application/json' };
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(`${url}/v1/inbox/${operation}`, {
    method: 'POST', headers, body: JSON.stringify(body), signal: AbortSignal.timeout(5000),
  });
  if (answer.status !== 200) throw new Error(`inbox service: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

// renewing renews after each third of the lease and aborts if it is too late.
function renewing(lease, lost) {
  return setInterval(async () => {
    try {
      const { status } = await ask('renew', { ...lease, leaseSeconds });
      if (status !== 'Acquired') lost.abort();
    } catch {
      // the next one may come through in time
    }
  }, leaseSeconds * 1000 / 3);
}

// leaseKey is the key of an event, which consumers in all languages build alike
// (inbox/lease/testdata/leasekeys.json). event has the attributes of the CloudEvent: type, id, and
// idempotencykey and tenant if it has them.
export function leaseKey(bus, group, event, sourceInKey = false) {
  const tenant = event.tenant ?? 'default';
  const versioned = /^(.+)@v([0-9]+)$/s.exec(event.type);
  const alias = versioned && Number(versioned[2]) > 1 ? versioned[1] : event.type;
  const owner = tenant === 'default' ? [bus, group] : [tenant, bus, group];
  const message = [alias, event.idempotencykey || event.id];
  if (sourceInKey || tenant !== 'default') message.unshift(sourceInKey ? event.source : '');
  const join = (parts) => parts.map((part) => part.replaceAll('%', '%25').replaceAll(':', '%3A')).join(':');
  const key = join([...owner, ...message]);
  if (Buffer.byteLength(key) <= 512) return key;
  return `${join(owner)}:%sha256=${createHash('sha256').update(join(message)).digest('hex')}`;
}

// processOnce runs work(token, signal) once for each key, and returns what became of it. work
// should stop when the signal aborts: somebody else has the message then. The token rises each
// time that the key changes hands; what work writes elsewhere can carry it, so that a writer that
// was taken for dead is refused there.
export async function processOnce(key, work) {
  const begun = await ask('try-begin', { key, owner: `node ${process.pid}`, leaseSeconds, maxAttempts: 5 });
  // Processed: acknowledge. Busy: have it again later. Exhausted: set it aside.
  if (begun.status !== 'Acquired') return begun.status;
  const lease = { key, leaseId: begun.leaseId };
  const lost = new AbortController();
  const heart = renewing(lease, lost);
  try {
    await work(begun.token, lost.signal);
  } catch (error) {
    await ask('release', lease);
    throw error;
  } finally {
    clearInterval(heart);
  }
  return (await ask('mark-processed', lease)).status;
}

async function main() {
  const key = leaseKey('orders', 'billing', { type: 'order-placed', id: 'order-1' });
  const charge = async (fencing) => console.log(`charged, with token ${fencing}`);
  try {
    await processOnce(key, async () => { throw new Error('the card is declined'); });
  } catch (error) {
    console.log(`released: ${error.message}`);
  }
  console.log(await processOnce(key, charge));
  console.log(await processOnce(key, charge)); // the same message once more

  const { leaseId } = await ask('try-begin', { key: 'by:hand' });
  console.log((await ask('renew', { key: 'by:hand', leaseId, leaseSeconds: 90 })).status);
  console.log((await ask('release', { key: 'by:hand', leaseId, uncounted: true })).status);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main();
