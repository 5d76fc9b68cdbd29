package deadletter_test

import (
	"fmt"

	"github.com/waybill-go/waybill/deadletter"
)

// Errors that differ in numbers and quoted texts only are one group: most often they have one cause.
func ExampleNormalizeError() {
	for _, text := range []string{`no such customer: 42`, `no such customer: 4711`, `currency "xyz" is unknown`} {
		fmt.Println(deadletter.NormalizeError(text))
	}
	// Output:
	// no such customer: <n>
	// no such customer: <n>
	// currency <text> is unknown
}
