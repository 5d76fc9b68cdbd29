package redact

import (
	"strings"
	"testing"
)

func TestURL(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"", ""},
		{"postgres://db/orders", "postgres://db/orders"},
		{"postgres://app@db/orders", "postgres://app@db/orders"},
		{"postgres://app:S3@db:5432/orders?sslmode=disable", "postgres://app:xxxxx@db:5432/orders?sslmode=disable"},
		{"postgres://app:S3/S3?S3#S3@S3@db/orders", "postgres://app:xxxxx@db/orders"},
		{"postgres://app:@db/orders", "postgres://app:xxxxx@db/orders"},
		{"postgres://db/orders?user=app&password=S3&sslmode=disable", "postgres://db/orders?user=app&password=xxxxx&sslmode=disable"},
		{"postgres://db/?sslpassword=S3", "postgres://db/?sslpassword=xxxxx"},
		{"host=db user=app password=S3&S3;S3 dbname=o", "host=db user=app password=xxxxx dbname=o"},
		{`host=db password = 'S3 \'S3@S3:' dbname=o`, `host=db password = xxxxx dbname=o`},
		{`host=db password=S3\ S3 dbname=o`, `host=db password=xxxxx dbname=o`},
		{"host=db PASSWORD='S3 S3", "host=db PASSWORD=xxxxx"},
		{"app:S3@tcp(db:3306)/orders?parseTime=true", "app:xxxxx@tcp(db:3306)/orders?parseTime=true"},
		{"amqp://guest:S3@127.0.0.1:5672/vhost", "amqp://guest:xxxxx@127.0.0.1:5672/vhost"},
		{"nats://S3@a:4222", "nats://xxxxx@a:4222"},
		{"nats://u:S3@a,nats://u:S3@b, tls://S3@c", "nats://u:xxxxx@a,nats://u:xxxxx@b, tls://xxxxx@c"},
		{"nats://u:S3,S3@a", "nats://u:xxxxx@a"},
		{"redis://:S3@127.0.0.1:6379/0", "redis://:xxxxx@127.0.0.1:6379/0"},
		{"https://hooks/x?access_token=S3&a=b", "https://hooks/x?access_token=xxxxx&a=b"},
		{"whsec_S3/S3+S3= whsec_S3", "whsec_xxxxx whsec_xxxxx"},
		{"Endpoint=sb://n.example/;SharedAccessKeyName=root;SharedAccessKey=S3/S3+S3=;EntityPath=q",
			"Endpoint=sb://n.example/;SharedAccessKeyName=root;SharedAccessKey=xxxxx;EntityPath=q"},
		{"endpoint=sb://n.example;sharedaccesssignature=SharedAccessSignature sr=n&sig=S3&se=1&skn=root",
			"endpoint=sb://n.example;sharedaccesssignature=xxxxx"},
		{"servicebus://root:S3/S3+S3=@n.example", "servicebus://root:xxxxx@n.example"},
		{"postgres://app:S3", "postgres://app:xxxxx"},
		{"postgres://app:12S3/S3?S3#S3", "postgres://app:xxxxx"},
		{"postgres:/app:S3", "postgres:/app:xxxxx"},
		{"postgres://db:5432,other/orders", "postgres://db:5432,other/orders"},
		{"postgres://[::1]:5432/orders", "postgres://[::1]:5432/orders"},
		{"kafka://a:9092,b:9092,app:S3", "kafka://a:9092,b:9092,app:xxxxx"},
		{"nats://a:4222, nats://b:4222", "nats://a:4222, nats://b:4222"},
		{"https://host:443/a:b", "https://host:443/a:b"},
		{"localhost:4222", "localhost:4222"},
		{"mem:", "mem:"},
		{"sqlite:/home/me@work/waybill.db", "sqlite:/home/me@work/waybill.db"},
		{"sqlite:w.db?_auth_password=S3", "sqlite:w.db?_auth_password=xxxxx"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			if got := URL(tt.in); got != tt.want {
				t.Errorf("URL() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMisplaced(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"postgres://app:1#S3@db/x": true, "redis://app:1?S3@db": true, "mysql://app:1/S3@db/x": true,
		"postgres://app:S3@db/x": false, "postgres://db:5432/x?user=a@b": false, "postgres://db/a@b": false,
		"https://host:8443/@me": false, "sqlite:/home/me@work/x.db": false, "amqp://host:5672/": false,
	} {
		if got := Misplaced(s); got != want {
			t.Errorf("Misplaced(%q) = %t", s, got)
		}
	}
}

// FuzzURL: whatever stands between user and host is hidden, and so it is without a host.
func FuzzURL(f *testing.F) {
	f.Add("p@ss:w/or?d#&", "db")
	f.Add(",x", "a,b")
	f.Add("12", "")
	f.Fuzz(func(t *testing.T, password, host string) {
		const mark = "S3CR3T"
		if strings.Contains(password, "://") || strings.Contains(host, mark) {
			return // the beginning of another URL
		}
		list := []string{"postgres://app:" + password + mark + "@" + host}
		if !strings.ContainsAny(password, "@/?#,") { // what follows one of these may be anything
			list = append(list, "postgres://app:"+password+mark)
		}
		for _, in := range list {
			if got := URL(in); strings.Contains(got, mark) {
				t.Errorf("URL(%q) = %q", in, got)
			}
		}
	})
}
