package main_test

import (
	"os"
	"strings"
	"testing"
)

// edgeVariable names the edge server's binary, which is not of this module.
const edgeVariable = "HIKYAKU_EDGE_SERVER"

// TestIPv4ClientsOfTheEdgeServer has the edge server pin each of two egress routes for a client
// over IPv4 and HTTPS, on a socket that takes both families.
func TestIPv4ClientsOfTheEdgeServer(t *testing.T) {
	t.Parallel()
	edge := os.Getenv(edgeVariable)
	if edge == "" {
		t.Skipf("SKIPPED: %s names no binary of the edge server (cargo build -p hikyaku)", edgeVariable)
	}
	l := newIPv4Lab(t, reflectorFRR, 1600)
	l.startBorder("off")
	l.startServer()
	server := l.guideLab.server
	server.run("mkdir -p /run/site")
	server.write("/run/site/page.txt", ipv4Page)
	for n, name := range []string{"transit-a", "transit-b"} {
		running := server.start(edge + " serve --config /dev/null --set listen=:8443 --set root=/run/site --set egress.socket=/run/hikyaku-egress/api.sock --set policy.route=" + name)
		l.eventually("the edge server sends by "+name, func() bool {
			before := l.through()
			out, err := l.client.command("curl -sSk --interface 198.51.100.7 --max-time 10 https://10.5.0.1:8443/page.txt").Output()
			after := l.through()
			return err == nil && string(out) == ipv4Page && after[n]-before[n] > 1000 && after[1-n]-before[1-n] < 10 // the handshake is plain
		})
		server.kill(running)
	}
	if out := server.run("hikyaku-egress paths 198.51.100.7"); !strings.Contains(out, "transit-a") || !strings.Contains(out, "198.51.100.0/24") {
		t.Errorf("the agent shows of the client\n%s", out)
	}
}
