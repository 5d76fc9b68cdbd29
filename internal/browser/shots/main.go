// Command shots retakes the pictures of the dashboard that the documentation shows, or, into another
// directory, one of each page, light and dark, as a desktop and as a phone show it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-go/waybill/internal/browser"
)

const maxHeight = 1600

// pages are taken in this order; the letter's are before the replay that ends it.
var pages = []struct {
	name, path string
	prepare    []string // what to click there
}{
	{name: "overview", path: ""},
	{name: "groups", path: "dead"},
	{name: "letters", path: "dead/list?topic=order.created"},
	{name: "letter", path: "dead/1"},
	{name: "payload", path: "dead/1", prepare: []string{"//button[contains(., 'Show payload')]"}},
	{name: "edit", path: "dead/1", prepare: []string{"//summary[text()='Edit']", "//button[contains(., 'Open the form')]"}},
	{name: "preview", path: "replays/new?topic=order.created"},
	{name: "message", path: "messages?id=order.created-0001"},
	{name: "search", path: "messages?topic=stock.changed&status=Published"},
	{name: "sagas", path: "sagas"},
	{name: "instance", path: "sagas/instance?saga=order&key=4711"},
	{name: "relays", path: "relays"},
	{name: "consumers", path: "consumers"},
	{name: "schedules", path: "schedules"},
	{name: "schedule", path: "schedules/one?name=nightly-invoices", prepare: []string{"//summary[text()='Pause']"}},
	{name: "checks", path: "checks"},
	{name: "replay", path: "replays/1"},
	{name: "replays", path: "replays"},
	{name: "audit", path: "audit"},
}

var looks = []struct {
	name  string
	width int
	dark  bool
}{{"desktop-light", 1280, false}, {"desktop-dark", 1280, true}, {"phone-light", 390, false}, {"phone-dark", 390, true}}

func main() {
	out := flag.String("out", "docs/img", "directory with the pictures to retake; all of them if it is not there")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	if err := run(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "shots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	stage, err := browser.NewStage()
	if err != nil {
		return err
	}
	if err := stage.Fill(ctx); err != nil {
		return err
	}
	go func() { _ = stage.Run(ctx) }() // until the program ends
	server := httptest.NewServer(stage.Handler)
	defer server.Close()
	b, err := browser.Start(ctx, browser.Options{})
	if err != nil {
		return err
	}
	defer b.Close()
	album, err := openAlbum(out)
	if err != nil {
		return err
	}
	return takeAll(ctx, b, stage, server.URL+"/waybill/", album)
}

// album is a directory of pictures.
type album struct {
	dir string
	all bool // it was not there: every picture belongs into it
}

func openAlbum(dir string) (album, error) {
	_, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return album{dir, true}, os.MkdirAll(dir, 0o755)
	}
	return album{dir, false}, err
}

// place returns where the picture of a page in a look belongs, and whether it does.
func (a album) place(page, look string) (string, bool) {
	file := filepath.Join(a.dir, "dashboard-"+page+"-"+look+".png")
	_, err := os.Stat(file)
	return file, a.all || err == nil
}

func takeAll(ctx context.Context, b *browser.Browser, stage *browser.Stage, url string, a album) error {
	if err := stage.AwaitTrouble(ctx); err != nil {
		return err
	}
	if err := stage.GiveUp(ctx); err != nil {
		return err
	}
	if err := take(ctx, b, url+"login", nil, a, "login"); err != nil {
		return err
	}
	if err := signIn(ctx, b, url); err != nil {
		return err
	}
	for _, p := range pages {
		if p.name == "replay" {
			if err := replay(ctx, b, url); err != nil {
				return err
			}
		}
		if err := take(ctx, b, url+p.path, p.prepare, a, p.name); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func signIn(ctx context.Context, b *browser.Browser, url string) error {
	if err := b.Go(ctx, url+"login"); err != nil {
		return err
	}
	if err := b.Type(ctx, "//input[@id='token']", browser.AdminSecret); err != nil {
		return err
	}
	return b.Click(ctx, "//button[contains(., 'Sign in')]")
}

// replay starts a replay, so that there is one to show.
func replay(ctx context.Context, b *browser.Browser, url string) error {
	if err := b.Go(ctx, url+"replays/new?topic=order.created"); err != nil {
		return err
	}
	if err := b.Type(ctx, "//input[@id='why']", "The queue is bound again"); err != nil {
		return err
	}
	return b.Click(ctx, "//button[contains(., 'Replay 12 letters')]")
}

func take(ctx context.Context, b *browser.Browser, url string, prepare []string, a album, page string) error {
	for _, look := range looks {
		file, wanted := a.place(page, look.name)
		if !wanted {
			continue
		}
		if err := b.Look(ctx, look.width, look.dark); err != nil {
			return err
		}
		if err := b.Go(ctx, url); err != nil {
			return err
		}
		for _, xpath := range prepare {
			if err := b.Click(ctx, xpath); err != nil {
				return err
			}
		}
		picture, err := b.Picture(ctx, look.width, maxHeight)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}
