// Command foreign-client tries a server by Go's net/http over HTTP/1.1 and HTTP/2, and by
// quic-go over HTTP/3. It prints a line for each case: its name, and `ok` or the fault.
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// The server under test, and its expected answers.
type target struct {
	client *http.Client
	// "HTTP/1.1", "HTTP/2.0" or "HTTP/3.0".
	proto string
	// The server of big.bin, and of a small page as /.
	files string
	// The proxy for an upstream that answers /echo and /head.
	proxy string
	// A proxy for the same upstream that takes bodies up to 64 KiB.
	limited string
	// SHA-256 of big.bin, in hexadecimal digits, and its size in bytes.
	hash string
	size int64
}

func main() {
	var t target
	version := flag.String("http", "", "1, 2 or 3")
	flag.StringVar(&t.files, "files", "", "URL of a server of files")
	flag.StringVar(&t.proxy, "proxy", "", "URL of a proxy")
	flag.StringVar(&t.limited, "limited", "", "URL of a proxy for small bodies")
	flag.StringVar(&t.hash, "hash", "", "SHA-256 of big.bin")
	flag.Int64Var(&t.size, "size", 0, "size of big.bin in bytes")
	only := flag.String("case", "", "the one case to try; all if empty")
	flag.Parse()

	transport, proto, err := transportOf(*version)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	t.proto = proto
	t.client = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	for _, c := range cases {
		if *only != "" && *only != c.name || *only == "" && c.alone {
			continue
		}
		verdict := "ok"
		if err := c.try(&t); err != nil {
			verdict = err.Error()
		}
		fmt.Printf("%s: %s\n", c.name, verdict)
	}
}

// The server's certificate is self-signed.
var anyCertificate = &tls.Config{InsecureSkipVerify: true}

func transportOf(version string) (http.RoundTripper, string, error) {
	var protocols http.Protocols
	transport := &http.Transport{
		TLSClientConfig:    anyCertificate,
		Protocols:          &protocols,
		DisableCompression: true,
	}
	switch version {
	case "1":
		protocols.SetHTTP1(true)
		return transport, "HTTP/1.1", nil
	case "2":
		protocols.SetHTTP2(true)
		return transport, "HTTP/2.0", nil
	case "3":
		return &http3.Transport{TLSClientConfig: anyCertificate, DisableCompression: true}, "HTTP/3.0", nil
	default:
		return nil, "", errors.New("-http is 1, 2 or 3")
	}
}
