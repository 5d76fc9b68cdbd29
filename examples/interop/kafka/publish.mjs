// Publishes two CloudEvents to a topic with kafkajs: one in binary mode, with its attributes in
// headers, and one in structured mode, with all of it in the value.
//
//   node publish.mjs host:port topic
import { Kafka, logLevel } from 'kafkajs'

const [broker, topic] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'interop', brokers: [broker], logLevel: logLevel.ERROR })
const producer = kafka.producer({ idempotent: true })
await producer.connect()
await producer.send({
  topic,
  acks: -1,
  messages: [
    {
      key: 'order-1',
      value: JSON.stringify({ total: 12 }),
      headers: {
        ce_specversion: '1.0',
        ce_id: 'js-1',
        ce_source: 'kafkajs',
        ce_type: 'order.created',
        ce_tenant: 'größe',
        'content-type': 'application/json',
      },
    },
    {
      key: 'order-1',
      value: JSON.stringify({
        specversion: '1.0',
        id: 'js-2',
        source: 'kafkajs',
        type: 'order.created',
        datacontenttype: 'application/json',
        data: { total: 13 },
      }),
      headers: { 'content-type': 'application/cloudevents+json; charset=UTF-8' },
    },
  ],
})
await producer.disconnect()
