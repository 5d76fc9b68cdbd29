package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/observe/promobserve"
	"github.com/waybill-go/waybill/relay"
)

// manifest is what these tests read of a Kubernetes manifest.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		ScaleTargetRef struct{ Name string } `yaml:"scaleTargetRef"`
		Triggers       []struct{ Metadata struct{ Query string } }
		Template       struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     struct {
				SecurityContext struct {
					NonRoot bool `yaml:"runAsNonRoot"`
					User    int  `yaml:"runAsUser"`
				} `yaml:"securityContext"`
				Containers []containerSpec
			}
		}
	}
}

type containerSpec struct {
	Args  []string
	Env   []struct{ Name, Value string }
	Ports []struct {
		Name string
		Port string `yaml:"containerPort"`
	}
	Liveness  probeSpec `yaml:"livenessProbe"`
	Readiness probeSpec `yaml:"readinessProbe"`
	Startup   probeSpec `yaml:"startupProbe"`
}

type probeSpec struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

// readManifests returns the manifests of a file by their kinds.
func readManifests(t *testing.T, name string) map[string]manifest {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(readDeploy(t, name)))
	manifests := make(map[string]manifest)
	for {
		var m manifest
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return manifests
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		manifests[m.Kind] = m
	}
}

// idle is a service that does nothing.
type idle struct{}

func (idle) Run(context.Context) error         { return nil }
func (idle) Health() error                     { return nil }
func (idle) RelayStatus() (relay.Status, bool) { return relay.Status{}, false }

// checkMonitor reports variables with which the relay does not serve metrics and health on port, where other machines reach them.
func checkMonitor(t *testing.T, where string, env []string, port string) {
	t.Helper()
	cfg, err := config.Load(nil, env, "")
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	if address, err := monitorAddress(cfg); err != nil || address != ":"+port {
		t.Errorf("%s: the relay serves metrics on %q (%v), want :%s", where, address, err, port)
	}
}

// checkCommand reports arguments that are no command of the program.
func checkCommand(t *testing.T, where string, args []string) {
	t.Helper()
	root := (&program{}).root()
	if cmd, rest, err := root.Find(args); err != nil || cmd == root || len(rest) > 0 {
		t.Errorf("%s runs waybill %q, which is no command", where, args)
	}
}

// TestDeploy_Kubernetes: the manifests run commands of the program, with its options, probe what it serves, and select the
// pods that they mean.
func TestDeploy_Kubernetes(t *testing.T) {
	t.Parallel()
	manifests := readManifests(t, "kubernetes/relay.yaml")
	deployment, job := manifests["Deployment"], readManifests(t, "kubernetes/migrate.yaml")["Job"]
	for _, m := range []manifest{deployment, job} {
		pod := m.Spec.Template.Spec
		if len(pod.Containers) != 1 || !pod.SecurityContext.NonRoot || pod.SecurityContext.User != 65532 {
			t.Fatalf("the pod of %s %s is %+v, want one container, as the image's user", m.Kind, m.Metadata.Name, pod)
		}
		checkCommand(t, m.Kind, pod.Containers[0].Args)
	}
	labels := deployment.Spec.Template.Metadata.Labels
	for _, kind := range []string{"Deployment", "PodDisruptionBudget"} {
		selected := manifests[kind].Spec.Selector.MatchLabels
		if len(selected) == 0 || !contains(labels, selected) || contains(job.Spec.Template.Metadata.Labels, selected) {
			t.Errorf("%s selects %v, want the relays, %v, alone", kind, selected, labels)
		}
	}
	relays := deployment.Spec.Template.Spec.Containers[0]
	port := relays.Ports[0]
	var env []string
	for _, v := range relays.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	checkMonitor(t, "Deployment", env, port.Port)
	if got := deployment.Spec.Template.Metadata.Annotations["prometheus.io/port"]; got != port.Port {
		t.Errorf("Prometheus reads port %s, want %s", got, port.Port)
	}
	handler := monitored{observer: promobserve.New(promobserve.Config{}), runner: idle{}}.handler()
	for name, p := range map[string]probeSpec{"liveness": relays.Liveness, "readiness": relays.Readiness, "startup": relays.Startup} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, p.Get.Path, nil))
		if answer.Code != http.StatusOK || p.Get.Port != port.Name {
			t.Errorf("the %s probe asks %s for %s: %d", name, p.Get.Port, p.Get.Path, answer.Code)
		}
	}
}

// contains reports whether labels has all of part.
func contains(labels, part map[string]string) bool {
	for name, value := range part {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// TestDeploy_KEDA: relays are scaled by a metric that there is.
func TestDeploy_KEDA(t *testing.T) {
	t.Parallel()
	scaled := readManifests(t, "kubernetes/keda.yaml")["ScaledObject"]
	if got, want := scaled.Spec.ScaleTargetRef.Name, readManifests(t, "kubernetes/relay.yaml")["Deployment"].Metadata.Name; got != want {
		t.Errorf("it scales %s, want %s", got, want)
	}
	if len(scaled.Spec.Triggers) != 1 {
		t.Fatalf("%d triggers, want one", len(scaled.Spec.Triggers))
	}
	checkExpression(t, "the trigger", scaled.Spec.Triggers[0].Metadata.Query, registered())
}

// TestDeploy_Compose: the services run commands of the program, with its options, on servers that are there.
func TestDeploy_Compose(t *testing.T) {
	t.Parallel()
	type service struct {
		Image       string
		Command     []string
		Environment map[string]string
		DependsOn   map[string]any `yaml:"depends_on"`
	}
	var file struct {
		Services map[string]service
		Configs  map[string]struct{ Content string }
	}
	if err := yaml.Unmarshal(readDeploy(t, "compose/compose.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"migrate", "relay"} {
		s := file.Services[name]
		checkCommand(t, name, s.Command)
		if len(s.DependsOn) == 0 {
			t.Errorf("%s waits for nothing", name)
		}
		for on := range s.DependsOn {
			if file.Services[on].Image == "" {
				t.Errorf("%s waits for %s, which is no service", name, on)
			}
		}
	}
	var env []string
	for name, value := range file.Services["relay"].Environment {
		env = append(env, name+"="+strings.ReplaceAll(value, "${PASSWORD:?give a password}", "secret"))
	}
	checkMonitor(t, "relay", env, "9464")
	if !strings.Contains(file.Configs["prometheus"].Content, "port: 9464") {
		t.Errorf("Prometheus does not read the relays' port: %s", file.Configs["prometheus"].Content)
	}
}

// TestDeploy_Systemd: the unit runs a command of the program, with its options.
func TestDeploy_Systemd(t *testing.T) {
	t.Parallel()
	unit := string(readDeploy(t, "systemd/waybill-relay.service"))
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/waybill (.*)$`).FindStringSubmatch(unit)
	if start == nil {
		t.Fatal("the unit starts no waybill")
	}
	checkCommand(t, "the unit", strings.Fields(start[1]))
	env := regexp.MustCompile(`(?m)^Environment=(.*)$`).FindStringSubmatch(unit)
	if _, err := config.Load(nil, env[1:], ""); err != nil {
		t.Error(err)
	}
}

// TestDeploy_Variables: whatever deploy/ names as a variable of the program is one.
func TestDeploy_Variables(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"WAYBILL_TAG": true} // Compose: the tag of the image
	for _, o := range config.Options() {
		known[o.Env()] = true
	}
	named := regexp.MustCompile(`\bWAYBILL_[A-Z_]+\b`)
	for _, file := range []string{"kubernetes/migrate.yaml", "kubernetes/relay.yaml", "compose/compose.yaml", "systemd/waybill-relay.service"} {
		names := make(map[string]bool)
		for _, name := range named.FindAllString(string(readDeploy(t, file)), -1) {
			names[name] = true
		}
		if len(names) == 0 {
			t.Errorf("%s names no variable", file)
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if !known[name] {
				t.Errorf("%s names %s, which is no option", file, name)
			}
		}
	}
}
