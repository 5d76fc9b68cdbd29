// Compares the keys of the example with those of the file, and says how many it compared.
import { readFileSync } from 'node:fs';
import { leaseKey } from '../../../../examples/inbox-node/process_once.mjs';

const cases = JSON.parse(readFileSync(process.argv[2], 'utf8'));
for (const { name, bus, group, event, sourceInKey, key } of cases) {
  const got = leaseKey(bus, group, event, sourceInKey);
  if (got !== key) throw new Error(`${name}: ${got}, want ${key}`);
}
console.log(`${cases.length} keys`);
