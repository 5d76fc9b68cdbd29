package membroker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

// TestDiscovery: who pings hears the announcement and its own answer, and nobody else's.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		d := b.Discovery()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var mu sync.Mutex
		heard := map[string][]string{}
		ping := func(id string) {
			err := d.Ping(ctx, "bus", "group", id, []byte("ping"), func(from string, body []byte) {
				mu.Lock()
				defer mu.Unlock()
				heard[id] = append(heard[id], from+" "+string(body))
			})
			if err != nil {
				t.Errorf("Ping() = %v", err)
			}
		}
		for _, id := range []string{"1", "2"} {
			go ping(id)
			synctest.Wait()
		}
		go d.Ping(ctx, "bus", "other", "3", nil, func(string, []byte) { t.Error("another group hears it") }) // it hears nothing
		answers := 0
		go func() {
			err := d.Listen(ctx, "bus", "group", []byte("here"), func(id string, ping []byte) []byte {
				answers++
				if id == "silence" {
					return nil
				}
				return []byte("answer to " + id + " " + string(ping))
			})
			if err != nil {
				t.Errorf("Listen() = %v", err)
			}
		}()
		synctest.Wait()
		for _, id := range []string{"4", "silence"} {
			go ping(id)
			synctest.Wait()
		}
		<-ctx.Done()
		synctest.Wait()
		for id, want := range map[string]string{"1": " here", "2": " here", "4": "4 answer to 4 ping"} {
			if len(heard[id]) != 1 || heard[id][0] != want {
				t.Errorf("%s heard %q, want %q alone", id, heard[id], want)
			}
		}
		if len(heard["silence"]) > 0 || answers != 2 {
			t.Errorf("heard %q without an answer; %d pings came, want 2", heard["silence"], answers)
		}
		b.Close()
		if err := d.Ping(t.Context(), "bus", "group", "5", nil, nil); !waybill.IsUnavailable(err) {
			t.Errorf("Ping() = %v after the end of the connection, want it unavailable", err)
		}
	})
}
