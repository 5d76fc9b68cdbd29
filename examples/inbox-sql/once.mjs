// Handles each message once, by docs/sql-contract.md, with a client of pg.
import { createHash } from 'node:crypto'

export async function once(client, consumer, event, body, handle) {
  const hash = createHash('sha256').update(body).digest('hex')
  await client.query('BEGIN')
  try {
    const { rows } = await client.query(
      'SELECT waybill.inbox_record($1, $2, $3, $4, $5, $6, $7) AS outcome',
      [consumer, event.id, event.type, event.source, event.tenant, event.idempotencykey, hash])
    if (rows[0].outcome === 'new') await handle(client, event, body)
    await client.query('COMMIT')
    return rows[0].outcome
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  }
}
