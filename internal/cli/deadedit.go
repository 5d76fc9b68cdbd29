package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
)

// letterEdit is the edit of a dead letter that flags describe.
type letterEdit struct {
	payload, payloadFile                    string
	contentType, dataSchema, typ, topic, to string
	headers, removed                        []string
	edit                                    deadletter.Edit
	changesHeaders                          bool
}

func (p *program) deadEditCommand() *cobra.Command {
	var e letterEdit
	var why string
	cmd := &cobra.Command{
		Use:   "edit NUMBER",
		Short: "Put a corrected copy of a dead letter back",
		Long: `Put a corrected copy of a dead letter's message back, and resolve the letter. The copy has an
id of its own, which is printed, and the place of the original in the order of its key. What
no flag changes stays as it was.

  waybill dead edit 7 --payload '{"customer": 42}'
  waybill dead edit 7 --payload @corrected.json`,
		Args: takes(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			numbers, err := letterNumbers(args)
			if err != nil {
				return err
			}
			act, err := p.act(cmd, why)
			if err != nil {
				return err
			}
			if err := e.complete(cmd, p.stdin); err != nil {
				return err
			}
			return p.withStores(cmd, ops.Letter, func(ctx context.Context, s ops.Stores) error {
				return p.deadEdit(ctx, s.Letters, numbers[0], &e, act)
			})
		}),
	}
	e.addTo(cmd)
	addWhy(cmd.Flags(), &why)
	return cmd
}

func (e *letterEdit) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&e.payload, "payload", "", "this payload, or @`text` to take it from the file with that name; @- is standard input")
	flags.StringVar(&e.payloadFile, "payload-file", "", "take the payload from this `file`; - is standard input")
	flags.StringVar(&e.contentType, "content-type", "", "another content type")
	flags.StringVar(&e.dataSchema, "data-schema", "", "another URI of the payload's schema")
	flags.StringVar(&e.typ, "type", "", "another type")
	flags.StringVar(&e.topic, "topic", "", "another topic, for a message that has one")
	flags.StringVar(&e.to, "to", "", "another destination, for a message that has one instead")
	flags.StringArrayVar(&e.headers, "header", nil, "set a header, as `name=value`; may be repeated")
	flags.StringArrayVar(&e.removed, "remove-header", nil, "remove the header with this `name`; may be repeated")
}

// complete turns the flags into an edit.
func (e *letterEdit) complete(cmd *cobra.Command, stdin io.Reader) error {
	changed := cmd.Flags().Changed
	for flag, field := range map[string]struct {
		to   **string
		from *string
	}{
		"content-type": {&e.edit.ContentType, &e.contentType}, "data-schema": {&e.edit.DataSchema, &e.dataSchema},
		"type": {&e.edit.Type, &e.typ}, "topic": {&e.edit.Topic, &e.topic}, "to": {&e.edit.To, &e.to},
	} {
		if changed(flag) {
			*field.to = field.from
		}
	}
	for _, h := range e.headers {
		if name, _, ok := strings.Cut(h, "="); !ok || name == "" {
			return usagef("--header is %q; it is name=value", h)
		}
	}
	e.changesHeaders = len(e.headers)+len(e.removed) > 0
	if err := e.completePayload(changed, stdin); err != nil {
		return err
	}
	if e.edit == (deadletter.Edit{}) && !e.changesHeaders {
		return usagef("nothing is to be changed; to requeue the letter as it is: waybill dead requeue")
	}
	return nil
}

// completePayload takes the payload from the command line or from a file.
func (e *letterEdit) completePayload(changed func(string) bool, stdin io.Reader) error {
	file, ofFile := strings.CutPrefix(e.payload, "@")
	flag := "payload"
	switch {
	case changed("payload") && changed("payload-file"):
		return usagef("give --payload or --payload-file, not both")
	case changed("payload") && !ofFile:
		payload := []byte(e.payload)
		e.edit.Payload = &payload
		return nil
	case changed("payload-file"):
		flag, file = "payload-file", e.payloadFile
	case !ofFile:
		return nil
	}
	payload, err := readPayload(file, stdin)
	if err != nil {
		return usagef("--%s: %v", flag, err)
	}
	e.edit.Payload = &payload
	return nil
}

// readPayload reads a file, up to the size limit of a payload.
func readPayload(name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	payload, err := io.ReadAll(io.LimitReader(in, waybill.MaxPayloadLen+1))
	if len(payload) > waybill.MaxPayloadLen {
		err = fmt.Errorf("%s has more than %d bytes", name, waybill.MaxPayloadLen)
	}
	return payload, err
}

// withHeaders returns the edit with all headers of the corrected message.
func (e *letterEdit) withHeaders(m *waybill.Message) (deadletter.Edit, error) {
	edit := e.edit
	if !e.changesHeaders {
		return edit, nil
	}
	headers := maps.Clone(m.Headers)
	if headers == nil {
		headers = make(map[string]string)
	}
	for _, name := range e.removed {
		if _, ok := headers[name]; !ok {
			return edit, usagef("--remove-header: the message has no header %q", name)
		}
		delete(headers, name)
	}
	for _, h := range e.headers {
		name, value, _ := strings.Cut(h, "=")
		headers[name] = value
	}
	edit.Headers = &headers
	return edit, nil
}

func (p *program) deadEdit(ctx context.Context, store deadletter.Store, number int64, e *letterEdit, act deadletter.Act) error {
	l, err := store.DeadLetter(ctx, number)
	if err != nil {
		return unknownLetter(number, err)
	}
	edit, err := e.withHeaders(&l.Message)
	if err != nil {
		return err
	}
	id, err := store.EditDeadLetter(ctx, number, edit, act)
	if waybill.IsUnavailable(err) {
		return err
	}
	if err != nil {
		reason, _ := ops.Refused(err)
		return errors.New(clean(ops.Find(ops.Letter, "edit").Undone(nameOf(number), cmp.Or(reason, err.Error()))))
	}
	if p.json {
		return p.printJSON(map[string]any{"number": number, "id": id})
	}
	if _, err := fmt.Fprintf(p.stdout, "Put a corrected copy of dead letter %d back as %s. The letter is resolved.\n", number, id); err != nil {
		return err
	}
	p.hintf("See where it is: waybill outbox show %s", id)
	return nil
}
