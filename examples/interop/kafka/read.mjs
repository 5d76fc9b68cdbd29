// Reads one message of a topic from its beginning with kafkajs, and prints it as JSON: its key,
// its value, and its headers, among which are the CloudEvents attributes as ce_….
//
//   node read.mjs host:port topic group
import { Kafka, logLevel } from 'kafkajs'

const [broker, topic, groupId] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'interop', brokers: [broker], logLevel: logLevel.ERROR })
const consumer = kafka.consumer({ groupId })
await consumer.connect()
await consumer.subscribe({ topics: [topic], fromBeginning: true })

const message = await new Promise((resolve, reject) => {
  consumer.run({ eachMessage: async ({ message }) => resolve(message) }).catch(reject)
})
const headers = Object.fromEntries(
  Object.entries(message.headers).map(([name, value]) => [name, value.toString()]))
console.log(JSON.stringify({
  key: message.key?.toString() ?? '',
  value: message.value.toString(),
  headers,
}))
await consumer.disconnect()
