package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/alert"
	"github.com/waybill-go/waybill/internal/ops"
)

// MailConfig configures a [Mail].
type MailConfig struct {
	// System is the name of the system that alerts are about, in the subject.
	System string

	// Server is smtp://user:password@host:port; without a user nobody logs in, without a port it is 587. To a
	// server on this machine there is no TLS, to any other STARTTLS is required. Required.
	Server string

	// From is the sender's address, To the recipients' addresses. Required.
	From string
	To   []string
}

// Mail sends alerts by SMTP, in one mail to all recipients. Create it with [NewMail].
type Mail struct {
	system        string
	host, address string        // the address has the port
	user          *url.Userinfo // nil if nobody logs in
	tls           *tls.Config   // nil for a server on this machine
	from          *mail.Address
	to            []*mail.Address
}

// NewMail makes no connection yet. The error does not quote the password.
func NewMail(cfg MailConfig) (*Mail, error) {
	u, err := url.Parse(cfg.Server)
	if err != nil || u.Scheme != "smtp" || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		return nil, errors.New("the server is no URL such as smtp://user:password@host:587")
	}
	port := u.Port()
	if port == "" {
		port = "587"
	}
	m := &Mail{system: cfg.System, host: u.Hostname(), address: net.JoinHostPort(u.Hostname(), port), user: u.User}
	if !isLocal(m.host) {
		m.tls = &tls.Config{ServerName: m.host, MinVersion: tls.VersionTLS12}
	}
	if m.from, err = mail.ParseAddress(cfg.From); err != nil {
		return nil, fmt.Errorf("the sender %q is no address", cfg.From)
	}
	for _, text := range cfg.To {
		to, err := mail.ParseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("the recipient %q is no address", text)
		}
		m.to = append(m.to, to)
	}
	if len(m.to) == 0 {
		return nil, errors.New("there is no recipient")
	}
	return m, nil
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Send sends one mail and returns nil if the server has accepted it for all recipients. It ends when ctx does,
// whatever the server does. It is safe for concurrent use.
func (m *Mail) Send(ctx context.Context, alerts []alert.Alert) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends what waits for the server
	if err := m.dialogue(conn, alerts); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return err
	}
	return nil
}

// dialogue hands a mail over.
func (m *Mail) dialogue(conn net.Conn, alerts []alert.Alert) error {
	c, err := smtp.NewClient(conn, m.host)
	if err != nil {
		return answered("greeting", err)
	}
	if err := m.secure(c); err != nil {
		return err
	}
	if err := c.Mail(m.from.Address); err != nil {
		return answered("MAIL", err)
	}
	for _, to := range m.to {
		if err := c.Rcpt(to.Address); err != nil {
			return answered("RCPT", err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return answered("DATA", err)
	}
	if _, err := w.Write(m.message(alerts, time.Now())); err != nil {
		return answered("DATA", err)
	}
	if err := w.Close(); err != nil {
		return answered("DATA", err)
	}
	_ = c.Quit() // it has the mail
	return nil
}

// secure turns to TLS and logs in.
func (m *Mail) secure(c *smtp.Client) error {
	if m.tls != nil {
		if offered, _ := c.Extension("STARTTLS"); !offered {
			return errors.New("the mail server does not offer STARTTLS")
		}
		if err := c.StartTLS(m.tls); err != nil {
			return answered("STARTTLS", err)
		}
	}
	if m.user == nil {
		return nil
	}
	password, _ := m.user.Password()
	if err := c.Auth(smtp.PlainAuth("", m.user.Username(), password, m.host)); err != nil {
		return answered("AUTH", err)
	}
	return nil
}

// answered returns an error about a command without the server's text.
func answered(command string, err error) error {
	var refused *textproto.Error
	var malformed textproto.ProtocolError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("the mail server answers %s with %d", command, refused.Code)
	case errors.As(err, &malformed):
		return fmt.Errorf("the mail server's answer to %s is malformed", command)
	}
	return fmt.Errorf("%s: %w", command, err)
}

// message returns a mail with its headers.
func (m *Mail) message(alerts []alert.Alert, now time.Time) []byte {
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	header("From", m.from.String())
	to := make([]string, len(m.to))
	for i, a := range m.to {
		to[i] = a.String()
	}
	header("To", strings.Join(to, ",\r\n "))
	header("Subject", mime.BEncoding.Encode("utf-8", mailSubject(m.system, alerts)))
	header("Date", now.Format(time.RFC1123Z))
	_, domain, _ := strings.Cut(m.from.Address, "@")
	header("Message-ID", "<"+alerts[0].ID+"@"+domain+">")
	header("Auto-Submitted", "auto-generated")
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = io.WriteString(w, mailText(alerts)) // to memory, which does not fail
	_ = w.Close()
	return b.Bytes()
}

func mailSubject(system string, alerts []alert.Alert) string {
	text := title(alerts[0])
	if len(alerts) > 1 {
		text += fmt.Sprintf(", and %d more", len(alerts)-1)
	}
	text = ops.Short("["+line(system)+"] "+text, maxSubject)
	return strings.ReplaceAll(text, "=?", "= ?") // would be decoded
}

// maxSubject is the most characters of a subject, which encoded is shorter than a line may be.
const maxSubject = 100

func mailText(alerts []alert.Alert) string {
	var b strings.Builder
	for i, a := range alerts {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(title(a) + "\n")
		for _, f := range append(fields(a), links(a)...) {
			if f.text != "" {
				fmt.Fprintf(&b, "%-10s %s\n", f.name+":", f.text)
			}
		}
	}
	return b.String()
}
