module github.com/waybill-go/waybill/examples/interop/cloudevents

go 1.26.0

require (
	github.com/cloudevents/sdk-go/v2 v2.15.2
	github.com/nats-io/nats.go v1.51.0
	github.com/rabbitmq/amqp091-go v1.10.0
	github.com/waybill-go/waybill v0.0.0
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/json-iterator/go v1.1.10 // indirect
	github.com/klauspost/compress v1.20.0 // indirect
	github.com/modern-go/concurrent v0.0.0-20180228061459-e0a39a4cb421 // indirect
	github.com/modern-go/reflect2 v0.0.0-20180701023420-4b7aa43c6742 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/waybill-go/waybill => ../../..
