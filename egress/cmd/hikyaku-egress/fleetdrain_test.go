package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hikyaku/egress/api"
)

// fleetEdge is an edge server beside its agent, and a member of a fleet.
type fleetEdge struct {
	*lab
	binary, config string
	process        *process
}

// newFleetEdge builds a network of its own with running agents, and starts an edge in it. Edges
// share the store at a Unix socket, which namespaces do not part.
func newFleetEdge(t *testing.T, binary, name, store, keys string) *fleetEdge {
	e := &fleetEdge{lab: running(t), binary: binary, config: filepath.Join(t.TempDir(), name+".toml")}
	site := t.TempDir()
	if err := os.WriteFile(filepath.Join(site, "page.txt"), []byte("page"), 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, e.config, fmt.Sprintf(`
listen = ":8443"
root = %q
admin.listen = "127.0.0.1:8440"
egress.socket = %q
[fleet]
store = "redis+unix://%s"
key_file = %q
name = %q
pop = "fra"
`, site, e.serverAPI, store, keys, name))
	e.start()
	return e
}

func (e *fleetEdge) start() {
	e.process = start(e.t, e.server, "edge", e.binary, "serve", "--config", e.config)
}

// second is the state of the second path at the edge, with the reason for it.
func (e *fleetEdge) second() (state, reason string) {
	out, err := e.server.Command(context.Background(), "curl", "-sS", "--max-time", "10", "http://127.0.0.1:8440/v1/status").Output()
	if err != nil {
		return "", err.Error()
	}
	var status struct {
		Egress struct {
			Paths []struct{ Name, State, Reason string }
		}
	}
	if err := json.Unmarshal(out, &status); err != nil || len(status.Egress.Paths) < 2 {
		return "", string(out)
	}
	second := status.Egress.Paths[1]
	return second.State, second.Reason
}

func (e *fleetEdge) secondIs(what, state, reason string) {
	e.t.Helper()
	e.eventually(what, func() bool {
		is, why := e.second()
		return is == state && strings.Contains(why, reason)
	})
}

// agent runs a command of hikyaku-egress paths at the edge's agent.
func (e *fleetEdge) agent(command ...string) {
	e.t.Helper()
	e.server.Run(binary, append([]string{"paths", "--socket", e.serverAPI}, command...)...)
}

// TestDrainHoldsAtTheOtherEdges drains a path at the agent of one edge. The other edge takes it for
// draining, although its own agent knows of no drain. So it does while the first edge is away.
func TestDrainHoldsAtTheOtherEdges(t *testing.T) {
	t.Parallel()
	edge := os.Getenv(edgeVariable)
	if edge == "" {
		t.Skipf("SKIPPED: %s names no binary of the edge server (cargo build -p hikyaku)", edgeVariable)
	}
	store, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skipf("SKIPPED, drains of a fleet are not tested: %v (Debian's package redis-server)", err)
	}
	dir := t.TempDir()
	socket, keys := filepath.Join(dir, "redis.sock"), filepath.Join(dir, "fleet.keys")
	write(t, keys, strings.Repeat("01", 32)+"\n")
	a := newFleetEdge(t, edge, "fra-1", socket, keys)
	a.server.Start(store, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	b := newFleetEdge(t, edge, "fra-2", socket, keys)
	a.secondIs("the path is up at the first edge", "up", "")
	b.secondIs("the path is up at the other edge", "up", "")

	a.agent("drain", path(1), "fibre", "work")
	a.secondIs("the drain holds where it was made", "draining", "")
	b.secondIs("the drain holds at the other edge", "draining", "drained at fra-1: fibre work")
	if state := b.state(b.serverAPI, path(1)); state != api.Up {
		t.Errorf("the other edge's agent has the path %s", state)
	}

	a.process.kill()
	a.serverAgent.kill()
	b.process.stop()
	b.start()
	b.secondIs("the drain holds while its edge is away, and after a restart", "draining", "drained at fra-1")

	a.startServer()
	a.start()
	a.secondIs("the drain outlives its agent", "draining", "")
	a.agent("undrain", path(1))
	a.secondIs("the drain ends where it began", "up", "")
	b.secondIs("the drain ends at the other edge", "up", "")
}
