//go:build version1

package main

import "github.com/waybill-go/waybill/consumer"

// named returns the settings of the consumer of a group: version 1 was told its name a second time.
func named(group string) consumer.Config { return consumer.Config{Name: group} }
