package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// A connection that answers requests.
type connection struct {
	trip    func(*http.Request) (*http.Response, error)
	close   func() error
	resumed bool
}

// Opens connections to one server.
type dialer struct {
	http   string
	host   string
	config *tls.Config
	// One for each source address.
	quic []*quic.Transport
	next int
	lock sync.Mutex
}

// Addresses of loopback, 127.0.1.1 and following, from which connections come: one has ports for
// some 28,000 only.
const sources = 16

// Time of a handshake at most, where many wait for a busy server.
const handshakeLimit = time.Minute

func newDialer(o *options) (*dialer, error) {
	target, err := url.Parse(o.url)
	if err != nil {
		return nil, err
	}
	host := target.Hostname()
	if address := net.ParseIP(host); address == nil || !address.IsLoopback() {
		return nil, fmt.Errorf("%q is no address of loopback", host)
	}
	names := map[string]string{"1": "http/1.1", "2": "h2", "3": "h3"}
	if names[o.http] == "" {
		return nil, errors.New("-http is 1, 2 or 3")
	}
	config := &tls.Config{
		// The server's certificate is self-signed.
		InsecureSkipVerify: true,
		// Sessions are kept by this name; an address is never sent.
		ServerName: host,
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{names[o.http]},
		// The other servers and clients have it, too.
		CurvePreferences: []tls.CurveID{tls.X25519},
	}
	d := &dialer{http: o.http, host: target.Host, config: config}
	if o.http != "3" {
		return d, nil
	}
	for number := range sources {
		socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: source(number)})
		if err != nil {
			return nil, err
		}
		d.quic = append(d.quic, &quic.Transport{Conn: socket})
	}
	return d, nil
}

func source(number int) net.IP {
	return net.IPv4(127, 0, 1, byte(1+number%sources))
}

func (d *dialer) turn() int {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.next++
	return d.next
}

func (d *dialer) open() (*connection, error) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeLimit)
	defer cancel()
	if d.http == "3" {
		return d.openQUIC(ctx)
	}
	return d.openTCP(ctx)
}

func (d *dialer) openQUIC(ctx context.Context) (*connection, error) {
	address, err := net.ResolveUDPAddr("udp4", d.host)
	if err != nil {
		return nil, err
	}
	config := &quic.Config{
		// Servers give up after 30 s without packets; a busy machine may delay some.
		KeepAlivePeriod: 8 * time.Second,
		MaxIdleTimeout:  10 * time.Minute,
	}
	opened, err := d.quic[d.turn()%sources].Dial(ctx, address, d.config, config)
	if err != nil {
		return nil, err
	}
	transport := http3.Transport{DisableCompression: true}
	client := transport.NewClientConn(opened)
	return &connection{
		trip:    client.RoundTrip,
		close:   func() error { return opened.CloseWithError(0x100, "") },
		resumed: opened.ConnectionState().TLS.DidResume,
	}, nil
}

func (d *dialer) openTCP(ctx context.Context) (*connection, error) {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: source(d.turn())}}
	plain, err := from.DialContext(ctx, "tcp4", d.host)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(plain, d.config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	state := secured.ConnectionState()
	if d.http == "1" {
		return &connection{trip: http1(secured), close: secured.Close, resumed: state.DidResume}, nil
	}
	if state.NegotiatedProtocol != "h2" {
		return nil, errors.Join(errors.New("the server does not speak HTTP/2"), secured.Close())
	}
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	transport := &http.Transport{
		Protocols:          &protocols,
		DisableCompression: true,
		DialTLSContext:     func(context.Context, string, string) (net.Conn, error) { return secured, nil },
	}
	client, err := transport.NewClientConn(ctx, "https", d.host)
	if err != nil {
		return nil, errors.Join(err, secured.Close())
	}
	return &connection{trip: client.RoundTrip, close: client.Close, resumed: state.DidResume}, nil
}

// Sends requests over a connection of HTTP/1.1, one after the other. http.Transport does not use a
// connection again whose request took over 50 ms to write, as it may on a busy machine.
func http1(conn net.Conn) func(*http.Request) (*http.Response, error) {
	reader := bufio.NewReader(conn)
	return func(request *http.Request) (*http.Response, error) {
		if err := request.Write(conn); err != nil {
			return nil, err
		}
		return http.ReadResponse(reader, request)
	}
}
