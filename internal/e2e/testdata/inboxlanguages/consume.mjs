// Handles the event on its standard input, if nobody of bus and group "orders", "billing" has.
import { readFileSync } from 'node:fs';
import { leaseKey, processOnce } from '../../../../examples/inbox-node/process_once.mjs';

const event = JSON.parse(readFileSync(0, 'utf8'));
console.log(await processOnce(leaseKey('orders', 'billing', event), async () => console.log('handled')));
