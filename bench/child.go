package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// child is a process that runs a job.
type child struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	news  chan struct{} // something has changed
	gone  chan struct{} // closed after the last report

	mu   sync.Mutex
	last report
	err  error
}

// spawn starts a child and returns when it is ready to begin.
func spawn(ctx context.Context, j job) (*child, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, program), news: make(chan struct{}, 1), gone: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	c.cmd.Stderr = os.Stderr
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.listen(output)
	if err := c.until(ctx, func(r report) bool { return r.Ready }); err != nil {
		c.kill()
		return nil, err
	}
	return c, nil
}

// listen takes in reports until the child has ended.
func (c *child) listen(output io.Reader) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		c.mu.Lock()
		err := json.Unmarshal(lines.Bytes(), &c.last) // fields that a report does not set stay
		if c.last.Error != "" {
			c.err = errors.New(c.last.Error)
		} else if err != nil {
			c.err = err
		}
		c.mu.Unlock()
		c.tell()
	}
	_ = c.cmd.Wait() // a child that fails has reported why
	close(c.gone)
}

func (c *child) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

func (c *child) state() (report, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.err
}

// patience is how long a child may make no progress before the bench aborts.
const patience = 2 * time.Minute

// until waits for a report that satisfies done.
func (c *child) until(ctx context.Context, done func(report) bool) error {
	settled := -1
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		r, err := c.state()
		switch {
		case err != nil:
			return err
		case done(r):
			return nil
		case r.Settled != settled:
			settled = r.Settled
			limit.Reset(patience)
		}
		select {
		case <-c.news:
		case <-c.gone:
			if r, err := c.state(); err != nil || !done(r) {
				return errors.Join(err, errors.New("the child process has ended early"))
			}
		case <-limit.C:
			return fmt.Errorf("nothing more was settled for %v, after %d messages", patience, settled)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// begin makes the child start.
func (c *child) begin() error {
	_, err := c.input.Write([]byte{'\n'})
	return err
}

// stop ends the child gracefully and waits for that.
func (c *child) stop() error {
	_ = c.input.Close() // a child that has ended has closed it
	<-c.gone
	_, err := c.state()
	return err
}

// kill ends the child at once.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.gone
}
