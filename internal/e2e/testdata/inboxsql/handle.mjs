// Handles the event on its standard input with the program for docs/sql-contract.md, through psql.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const [url, failure] = process.argv.slice(2)
const { once } = await import(`${process.env.PROGRAMS}/once.mjs`)

// A client of pg, for one session of psql.
const session = spawn('psql', [url, '-qAtX'], { stdio: ['pipe', 'pipe', 'inherit'] })
const lines = createInterface({ input: session.stdout })[Symbol.asyncIterator]()
const client = {
  async query(statement, args = []) {
    const quoted = args.map((arg) => arg == null ? 'NULL' : `'${arg.replaceAll("'", "''")}'`)
    session.stdin.write(`${statement.replace(/\$(\d+)/g, (_, n) => quoted[n - 1])};\n\\echo end :SQLSTATE\n`)
    const rows = []
    for (;;) {
      const { value } = await lines.next()
      if (value === 'end 00000') return { rows }
      if (value.startsWith('end ')) throw new Error(value)
      rows.push({ outcome: value })
    }
  },
}

async function work(client, event) {
  await client.query('INSERT INTO charges VALUES ($1)', [event.id])
  if (failure) throw new RangeError(failure)
}

const { event, body } = JSON.parse(readFileSync(0, 'utf8'))
try {
  console.log(await once(client, 'billing', event, Buffer.from(body), work))
} catch (error) {
  if (!(error instanceof RangeError)) throw error
  console.log(error.message)
}
session.stdin.end()
