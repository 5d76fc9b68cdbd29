package brokerkit

import "github.com/waybill-go/waybill/broker"

// Part is one thing that a broker needs, compared with what the server has.
type Part struct {
	Step broker.Step
	Make func() error // does what the step says
}

// Plan returns the steps of parts.
func Plan(parts []Part, err error) ([]broker.Step, error) {
	if err != nil {
		return nil, err
	}
	var steps []broker.Step
	for _, p := range parts {
		steps = append(steps, p.Step)
	}
	return steps, nil
}

// Apply does what the steps of parts say, in their order, and leaves alone what is to be kept or in conflict. An error is
// returned together with the steps that were done before it.
func Apply(parts []Part, err error) ([]broker.Step, error) {
	steps, err := Plan(parts, err)
	if err != nil {
		return nil, err
	}
	for i, p := range parts {
		if p.Step.Action == broker.Keep || p.Step.Action == broker.Conflict {
			continue
		}
		if err := p.Make(); err != nil {
			return steps[:i], err
		}
	}
	return steps, nil
}
