package redisurl

import (
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestSentinels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url  string
		want redis.UniversalOptions
	}{
		{"redis://a?master_name=shop", redis.UniversalOptions{MasterName: "shop", Addrs: []string{"a:26379"}}},
		{"redis://a:1?master_name=shop&addr=b:2&addr=c", redis.UniversalOptions{MasterName: "shop", Addrs: []string{"a:1", "b:2", "c:26379"}}},
		{"redis://app:s3cret@a:1/4?addr=b:2&master_name=shop&sentinel_username=u&sentinel_password=p&read_timeout=7s", redis.UniversalOptions{
			MasterName: "shop", Addrs: []string{"a:1", "b:2"}, Username: "app", Password: "s3cret", DB: 4,
			SentinelUsername: "u", SentinelPassword: "p", ReadTimeout: 7 * time.Second,
		}},
	} {
		got, err := Sentinels(test.url)
		if err != nil || !reflect.DeepEqual(*got, test.want) {
			t.Errorf("Sentinels(%s) = %+v, %v, want %+v", test.url, got, err, test.want)
		}
	}
}

func TestSentinels_TLS(t *testing.T) {
	t.Parallel()
	got, err := Sentinels("rediss://a:1?master_name=shop")
	if err != nil || got.TLSConfig == nil || got.TLSConfig.ServerName != "" {
		t.Errorf("Sentinels() = %+v, %v, want TLS, with the name of whichever server is reached", got, err)
	}
}

func TestSentinels_Others(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://a:1", "redis://a:1?addr=b:2", "redis://a:1?master_name="} {
		if got, err := Sentinels(url); got != nil || err != nil {
			t.Errorf("Sentinels(%s) = %+v, %v, want nil: it is no URL of Sentinels", url, got, err)
		}
	}
	for _, url := range []string{"http://a:1?master_name=shop", "redis://a:1?master_name=shop&colour=red", "redis://a:1/x?master_name=shop", "redis://a:b:c"} {
		if got, err := Sentinels(url); err == nil {
			t.Errorf("Sentinels(%s) = %+v, want an error", url, got)
		}
	}
}
