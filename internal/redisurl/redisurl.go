// Package redisurl parses the URLs of Redis Sentinels, which the client library does not support.
package redisurl

import (
	"net"
	"net/url"

	"github.com/redis/go-redis/v9"
)

// sentinelPort is the default port of Sentinels.
const sentinelPort = "26379"

// Sentinels parses redis://user:password@host:port/number?master_name=name&addr=host:port. The hosts are
// Sentinels, and user, password and number are for the servers that they monitor; those for the Sentinels are
// sentinel_username and sentinel_password. Further parameters are those of [redis.ParseURL]. It returns nil for
// a URL without master_name.
func Sentinels(text string) (*redis.UniversalOptions, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	take := func(name string) string {
		defer q.Del(name)
		return q.Get(name)
	}
	o := &redis.UniversalOptions{MasterName: take("master_name")}
	if o.MasterName == "" {
		return nil, nil
	}
	for _, host := range append([]string{u.Host}, q["addr"]...) {
		o.Addrs = append(o.Addrs, withPort(host))
	}
	q.Del("addr")
	o.SentinelUsername, o.SentinelPassword = take("sentinel_username"), take("sentinel_password")
	u.RawQuery = q.Encode()
	server, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, err
	}
	setServer(o, server)
	return o, nil
}

// withPort returns a host with the default port, unless it has one.
func withPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(host, sentinelPort)
}

// setServer sets the options for the servers. TLS verifies each server, and each Sentinel, by the name under
// which it is reached.
func setServer(o *redis.UniversalOptions, server *redis.Options) {
	o.Username, o.Password, o.DB = server.Username, server.Password, server.DB
	o.Protocol, o.ClientName = server.Protocol, server.ClientName
	o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = server.MaxRetries, server.MinRetryBackoff, server.MaxRetryBackoff
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = server.DialTimeout, server.ReadTimeout, server.WriteTimeout
	o.PoolFIFO, o.PoolSize, o.PoolTimeout = server.PoolFIFO, server.PoolSize, server.PoolTimeout
	o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = server.MinIdleConns, server.MaxIdleConns, server.MaxActiveConns
	o.ConnMaxIdleTime, o.ConnMaxLifetime = server.ConnMaxIdleTime, server.ConnMaxLifetime
	if o.TLSConfig = server.TLSConfig; o.TLSConfig != nil {
		o.TLSConfig.ServerName = ""
	}
}
