// Package browser drives a headless Chromium through chromedriver's HTTP interface, for
// tests of what people see, and for pictures of it.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"time"
)

// Browser is one running browser with one window. One goroutine at a time uses it.
type Browser struct {
	driver  *exec.Cmd
	address string // of chromedriver
	session string // its path
}

// Options say what kind of browser it is.
type Options struct {
	NoScript bool // pages run no JavaScript
}

// elementKey is the name under which WebDriver passes elements around.
const elementKey = "element-6066-11e4-a52e-4f735466cecf"

// requestTimeout bounds one command; a busy machine takes long to start a browser.
const requestTimeout = 2 * time.Minute

// Start starts chromedriver and a browser. The caller closes it.
func Start(ctx context.Context, o Options) (*Browser, error) {
	path, err := exec.LookPath("chromedriver")
	if err != nil {
		return nil, errors.New("chromedriver is not installed; on Debian and its relatives: apt-get install chromium-driver")
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, "--port=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b := &Browser{driver: cmd}
	port, err := readPort(out)
	if err == nil {
		b.address = "http://127.0.0.1:" + port
		err = b.open(ctx, o)
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("start a browser: %w", err)
	}
	return b, nil
}

var onPort = regexp.MustCompile(`started successfully on port (\d+)`)

// readPort finds the port in what chromedriver prints first, and lets it print on.
func readPort(out io.Reader) (string, error) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := onPort.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
			return m[1], nil
		}
	}
	return "", errors.New("chromedriver has named no port")
}

func (b *Browser) open(ctx context.Context, o Options) error {
	options := map[string]any{"args": []string{
		"--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
		"--disable-background-networking", "--window-size=1280,900",
	}}
	if o.NoScript {
		options["prefs"] = map[string]any{"profile.managed_default_content_settings.javascript": 2}
	}
	always := map[string]any{"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": map[string]string{"browser": "ALL"}}
	var session struct {
		ID string `json:"sessionId"`
	}
	err := b.call(ctx, http.MethodPost, "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": always}}, &session)
	b.session = "/session/" + session.ID
	return err
}

// Close ends browser and chromedriver.
func (b *Browser) Close() {
	if b.session != "" {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = b.call(ctx, http.MethodDelete, b.session, nil, nil) // the process is killed anyway
	}
	_ = b.driver.Process.Kill() // it may have ended
	_ = b.driver.Wait()
}

// call sends a command and reads its value into result, unless that is nil.
func (b *Browser) call(ctx context.Context, method, path string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var content io.Reader
	if method == http.MethodPost {
		if body == nil {
			body = struct{}{}
		}
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.address+path, content)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var answer struct {
		Value json.RawMessage `json:"value"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if res.StatusCode != http.StatusOK {
		return refusal(path, answer.Value)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Value, result)
}

func refusal(path string, value json.RawMessage) error {
	var problem struct{ Error, Message string }
	_ = json.Unmarshal(value, &problem) // what can't be read stays empty
	return fmt.Errorf("%s: %s: %.300s", path, problem.Error, problem.Message)
}

func (b *Browser) post(ctx context.Context, path string, body, result any) error {
	return b.call(ctx, http.MethodPost, b.session+path, body, result)
}

// Go opens a page and waits until it is loaded.
func (b *Browser) Go(ctx context.Context, url string) error {
	return b.post(ctx, "/url", map[string]string{"url": url}, nil)
}

// find returns the first element that an XPath selects.
func (b *Browser) find(ctx context.Context, xpath string) (string, error) {
	var element map[string]string
	err := b.post(ctx, "/element", map[string]string{"using": "xpath", "value": xpath}, &element)
	return element[elementKey], err
}

// Click clicks on the first element that an XPath selects.
func (b *Browser) Click(ctx context.Context, xpath string) error {
	element, err := b.find(ctx, xpath)
	if err != nil {
		return err
	}
	return b.post(ctx, "/element/"+element+"/click", nil, nil)
}

// Type types into the first element that an XPath selects.
func (b *Browser) Type(ctx context.Context, xpath, text string) error {
	element, err := b.find(ctx, xpath)
	if err != nil {
		return err
	}
	return b.post(ctx, "/element/"+element+"/value", map[string]string{"text": text}, nil)
}

// Text returns the visible text of the first element that an XPath selects.
func (b *Browser) Text(ctx context.Context, xpath string) (text string, err error) {
	element, err := b.find(ctx, xpath)
	if err != nil {
		return "", err
	}
	return text, b.call(ctx, http.MethodGet, b.session+"/element/"+element+"/text", nil, &text)
}

// Run runs the body of a JavaScript function in the page and reads what it returns into
// result, unless that is nil.
func (b *Browser) Run(ctx context.Context, script string, result any) error {
	return b.post(ctx, "/execute/sync", map[string]any{"script": script, "args": []any{}}, result)
}

// Press presses keys where the focus is. "\ue004" is Tab, "\ue007" Enter.
func (b *Browser) Press(ctx context.Context, keys string) error {
	var element map[string]string
	if err := b.call(ctx, http.MethodGet, b.session+"/element/active", nil, &element); err != nil {
		return err
	}
	return b.post(ctx, "/element/"+element[elementKey]+"/value", map[string]string{"text": keys}, nil)
}

// Complaints returns the errors that the browser's console has shown since the last call,
// such as those about the content security policy.
func (b *Browser) Complaints(ctx context.Context) ([]string, error) {
	var entries []struct{ Level, Message string }
	if err := b.post(ctx, "/se/log", map[string]string{"type": "browser"}, &entries); err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		if e.Level == "SEVERE" {
			list = append(list, e.Message)
		}
	}
	return list, nil
}

// devtools sends a command of the DevTools protocol.
func (b *Browser) devtools(ctx context.Context, command string, params map[string]any, result any) error {
	return b.post(ctx, "/goog/cdp/execute", map[string]any{"cmd": command, "params": params}, result)
}

// Look makes the browser show pages as a device of the given width would, in dark or light.
func (b *Browser) Look(ctx context.Context, width int, dark bool) error {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	feature := map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}
	if err := b.devtools(ctx, "Emulation.setEmulatedMedia", feature, nil); err != nil {
		return err
	}
	return b.devtools(ctx, "Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < phoneWidth}, nil)
}

// Picture returns the page as a PNG, from its top to at most maxHeight pixels.
func (b *Browser) Picture(ctx context.Context, width, maxHeight int) ([]byte, error) {
	var height int
	if err := b.Run(ctx, "scrollTo(0, 0); return document.documentElement.scrollHeight", &height); err != nil {
		return nil, err
	}
	// A new size makes the browser repaint, which it may otherwise not do behind a form
	// that was sent.
	height = min(height, maxHeight)
	size := map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < phoneWidth}
	if err := b.devtools(ctx, "Emulation.setDeviceMetricsOverride", size, nil); err != nil {
		return nil, err
	}
	var picture string
	if err := b.call(ctx, http.MethodGet, b.session+"/screenshot", nil, &picture); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(picture)
}

const phoneWidth = 600 // what is narrower is shown as on a phone
