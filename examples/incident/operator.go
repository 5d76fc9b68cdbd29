package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// operator types commands of the program waybill and shows what they print.
type operator struct {
	program string
	dir     string   // with the program, if it was built
	env     []string // names the store and the broker
}

func newOperator(ctx context.Context, s settings, sh *shop) (*operator, error) {
	op := &operator{program: s.program, env: append(os.Environ(),
		"WAYBILL_STORE="+s.store, "WAYBILL_SCHEMA="+sh.name,
		"WAYBILL_BROKER=nats://"+sh.wire.address(), "WAYBILL_NATS_STREAM="+sh.name, "WAYBILL_NATS_SUBJECT_PREFIX="+sh.name+".")}
	if op.program != "" {
		return op, nil
	}
	var err error
	if op.dir, err = os.MkdirTemp("", "waybill-incident-"); err != nil {
		return nil, err
	}
	op.program = filepath.Join(op.dir, "waybill")
	build := exec.CommandContext(ctx, "go", "build", "-o", op.program, "github.com/waybill-go/waybill/cmd/waybill")
	if out, err := build.CombinedOutput(); err != nil {
		op.close()
		return nil, fmt.Errorf("build waybill: %w\n%s", err, out)
	}
	return op, nil
}

func (op *operator) close() {
	if op.dir != "" {
		_ = os.RemoveAll(op.dir)
	}
}

// run types a command that must succeed.
func (op *operator) run(ctx context.Context, args ...string) error {
	out, err := op.output(ctx, args...)
	fmt.Printf("\n$ waybill %s\n%s", strings.Join(args, " "), out)
	if err != nil {
		return fmt.Errorf("waybill %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// runFailing types a command that must fail.
func (op *operator) runFailing(ctx context.Context, args ...string) error {
	var exit *exec.ExitError
	err := op.run(ctx, args...)
	if err == nil || !errors.As(err, &exit) || exit.ExitCode() != 1 {
		return fmt.Errorf("waybill %s: exit code 1 was expected, and not: %w", strings.Join(args, " "), err)
	}
	return nil
}

func (op *operator) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, op.program, args...)
	cmd.Env = op.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}

// requeueAll requeues every dead letter.
func (op *operator) requeueAll(ctx context.Context) error {
	out, err := op.output(ctx, "dead", "list", "--json")
	if err != nil {
		return fmt.Errorf("waybill dead list: %w: %s", err, out)
	}
	var letters []struct{ Number int64 }
	if err := json.Unmarshal(out, &letters); err != nil {
		return err
	}
	args := []string{"dead", "requeue"}
	for _, l := range letters {
		args = append(args, strconv.FormatInt(l.Number, 10))
	}
	return op.run(ctx, args...)
}
