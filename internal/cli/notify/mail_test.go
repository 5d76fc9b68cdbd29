package notify

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"strings"
	"testing"
	"time"
)

// smtpServer answers as its rules say and keeps the last mail.
type smtpServer struct {
	tls     *tls.Config // offers STARTTLS if it is set
	refuse  string      // the command that is answered with 554
	stop    string      // the command at which it hangs
	hung    chan struct{}
	secured bool // the mail came over TLS
	user    string
	mail    chan string
}

func (s *smtpServer) serve(c net.Conn) {
	defer c.Close()
	secured := false
	say := func(text string) { _, _ = io.WriteString(c, text+"\r\n") }
	if s.stop == "greeting" {
		<-s.hung
	}
	say("220 mail.example ready")
	lines := bufio.NewReader(c)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		command, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		switch {
		case command == s.stop:
			<-s.hung
		case command == s.refuse:
			say("554 s3cr3t of the server")
			continue
		}
		switch command {
		case "EHLO":
			say("250-mail.example")
			if s.tls != nil && !secured {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case "STARTTLS":
			say("220 go on")
			encrypted := tls.Server(c, s.tls)
			c, lines, secured = encrypted, bufio.NewReader(encrypted), true
		case "AUTH":
			s.user = rest
			say("235 hello")
		case "DATA":
			say("354 go on")
			var b strings.Builder
			for {
				text, err := lines.ReadString('\n')
				if err != nil || text == ".\r\n" {
					break
				}
				b.WriteString(strings.TrimPrefix(text, "."))
			}
			s.secured = secured
			say("250 taken")
			s.mail <- b.String()
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// start serves, and returns the address.
func (s *smtpServer) start(t *testing.T) string {
	t.Helper()
	s.mail, s.hung = make(chan string, 1), make(chan struct{})
	t.Cleanup(func() { close(s.hung) })
	return listen(t, func(c net.Conn) { go s.serve(c) })
}

func newMail(t *testing.T, server string) *Mail {
	t.Helper()
	m, err := NewMail(MailConfig{System: "shöp", Server: server, From: "Waybill <waybill@shop.example>", To: []string{"ann@shop.example", "Bob <bob@shop.example>"}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMail: a mail has the headers that were meant, and no others, whatever was found.
func TestMail(t *testing.T) {
	t.Parallel()
	s := &smtpServer{}
	m := newMail(t, "smtp://"+s.start(t))
	for i, want := range []string{"[shöp] problem began: store, and 1 more", "[shöp] " + strings.ReplaceAll(line(hostile)[:60], "=?", "= ?")} {
		if err := m.Send(t.Context(), sample()[i:]); err != nil {
			t.Fatal(err)
		}
		raw := <-s.mail
		got, err := mail.ReadMessage(strings.NewReader(raw))
		if err != nil {
			t.Fatalf("%v:\n%s", err, raw)
		}
		if len(got.Header) != 9 || got.Header.Get("Bcc") != "" || strings.Contains(raw, "\x1b") {
			t.Errorf("headers are %v", got.Header)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
		if err != nil || !strings.HasPrefix(subject, want) {
			t.Errorf("the subject is %q, %v, want %q", subject, err, want)
		}
		if to, err := got.Header.AddressList("To"); err != nil || len(to) != 2 || to[1].Address != "bob@shop.example" {
			t.Errorf("to %v, %v", to, err)
		}
		if id := got.Header.Get("Message-Id"); id != "<"+sample()[i].ID+"@shop.example>" {
			t.Errorf("the id is %s", id)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
		if err != nil {
			t.Fatal(err)
		}
		checkMailText(t, i, strings.ReplaceAll(string(body), "\r\n", "\n"))
	}
}

func checkMailText(t *testing.T, i int, body string) {
	t.Helper()
	const first = "problem began: store\nfound:     cannot reach the store\nsince:     2026-08-01 03:00:00Z\ndo:        start it\n" +
		"dashboard: https://waybill.example/checks\nrunbook:   https://docs.example/runbooks.md#database-failover\n"
	if i == 0 && !strings.HasPrefix(body, first) {
		t.Errorf("the text is\n%s\nwant at its beginning\n%s", body, first)
	}
	if want := "until:     2026-08-01 04:00:00Z\n"; !strings.HasSuffix(body, want) {
		t.Errorf("the text is\n%s\nwant at its end %s", body, want)
	}
	if strings.Contains(body, "\nBcc") || strings.Contains(body, "\n.\n") || strings.ContainsAny(body, "\r\x1b\u202e") {
		t.Errorf("what was found is more than one line: %q", body)
	}
}

// TestMail_TLS: to another machine the mail and the password go over TLS, or not at all.
func TestMail_TLS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	t.Cleanup(certified.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(certified.Certificate())
	for _, tt := range []struct {
		name   string
		offers *tls.Config
		trust  *x509.CertPool
		want   string
	}{
		{"STARTTLS", &tls.Config{Certificates: certified.TLS.Certificates}, trusted, ""},
		{"no STARTTLS", nil, trusted, "does not offer STARTTLS"},
		{"of nobody we know", &tls.Config{Certificates: certified.TLS.Certificates}, x509.NewCertPool(), "certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &smtpServer{tls: tt.offers}
			m := newMail(t, "smtp://ann:S3CR3T@"+s.start(t))
			m.tls = &tls.Config{ServerName: "127.0.0.1", RootCAs: tt.trust, MinVersion: tls.VersionTLS12}
			err := m.Send(t.Context(), sample())
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "S3CR3T") || len(s.mail) > 0 || s.user != "" {
					t.Errorf("Send() = %v, want %q, and nothing sent", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if <-s.mail; !s.secured || s.user == "" {
				t.Errorf("over TLS: %t, logged in as %q", s.secured, s.user)
			}
		})
	}
}

// TestMail_Fails: what the server does wrong ends in an error, at the deadline at the latest.
func TestMail_Fails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, refuse, stop, want string }{
		{name: "refuses the sender", refuse: "MAIL", want: "the mail server answers MAIL with 554"},
		{name: "refuses a recipient", refuse: "RCPT", want: "the mail server answers RCPT with 554"},
		{name: "refuses the mail", refuse: "DATA", want: "the mail server answers DATA with 554"},
		{name: "refuses the password", refuse: "AUTH", want: "the mail server answers AUTH with 554"},
		{name: "hangs at once", stop: "greeting", want: "context deadline exceeded"},
		{name: "hangs later", stop: "RCPT", want: "context deadline exceeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &smtpServer{refuse: tt.refuse, stop: tt.stop}
			wantFailure(t, newMail(t, "smtp://ann:S3CR3T@"+s.start(t)), tt.want)
		})
	}
	for name, serve := range map[string]func(net.Conn){
		"accepts and closes": func(c net.Conn) { _ = c.Close() },
		"answers nonsense":   func(c net.Conn) { fmt.Fprint(c, "s3cr3t of the server\r\n"); _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantFailure(t, newMail(t, "smtp://"+listen(t, serve)), "greeting")
		})
	}
	t.Run("refuses connections", func(t *testing.T) {
		t.Parallel()
		wantFailure(t, newMail(t, "smtp://"+closedPort(t)), "refused")
	})
}

func wantFailure(t *testing.T, m *Mail, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := m.Send(ctx, sample())
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(strings.ToLower(err.Error()), "s3cr3t") {
		t.Errorf("Send() = %v, want %q", err, want)
	}
}
