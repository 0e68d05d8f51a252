package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

type testCase struct {
	name string
	try  func(*target) error
	// Runs only if it is named.
	alone bool
}

var cases = []testCase{
	{name: "get", try: get},
	{name: "key exchange", try: keyExchange},
	{name: "head", try: head},
	{name: "range", try: byteRange},
	{name: "not modified", try: notModified},
	{name: "not found", try: notFound},
	{name: "download of 20 MB", try: download},
	{name: "post of 5 MB", try: post},
	{name: "body of unknown length", try: unknownLength},
	{name: "trailers", try: trailers},
	{name: "methods without a body", try: withoutBody},
	{name: "hundred downloads at once", try: hundredDownloads},
	{name: "hundred posts at once", try: hundredPosts},
	{name: "large header section", try: largeHeaders},
	{name: "early 413", try: tooLarge, alone: true},
}

func get(t *target) error {
	response, body, err := t.fetch(http.MethodGet, t.files+"/", nil, nil)
	if err != nil {
		return err
	}
	want := fmt.Sprint(len(body))
	return errors.Join(
		same("status", response.StatusCode, 200),
		same("version", response.Proto, t.proto),
		same("Content-Length", response.Header.Get("Content-Length"), want),
		same("type", response.Header.Get("Content-Type")[:9], "text/html"),
	)
}

// keyExchange wants the hybrid that Go prefers, as browsers do, without a second ClientHello.
func keyExchange(t *target) error {
	response, _, err := t.fetch(http.MethodGet, t.files+"/", nil, nil)
	if err != nil {
		return err
	}
	return errors.Join(
		same("group", response.TLS.CurveID, tls.X25519MLKEM768),
		same("HelloRetryRequest", response.TLS.HelloRetryRequest, false),
	)
}

func head(t *target) error {
	response, body, err := t.fetch(http.MethodHead, t.files+"/big.bin", nil, nil)
	if err != nil {
		return err
	}
	return errors.Join(
		same("status", response.StatusCode, 200),
		same("length", response.ContentLength, t.size),
		same("bytes of content", len(body), 0),
	)
}

func byteRange(t *target) error {
	header := http.Header{"Range": {"bytes=100-199"}}
	response, body, err := t.fetch(http.MethodGet, t.files+"/big.bin", header, nil)
	if err != nil {
		return err
	}
	want := fmt.Sprintf("bytes 100-199/%d", t.size)
	return errors.Join(
		same("status", response.StatusCode, 206),
		same("Content-Range", response.Header.Get("Content-Range"), want),
		same("bytes of content", len(body), 100),
	)
}

func notModified(t *target) error {
	response, _, err := t.fetch(http.MethodGet, t.files+"/", nil, nil)
	if err != nil {
		return err
	}
	header := http.Header{"If-None-Match": {response.Header.Get("ETag")}}
	response, body, err := t.fetch(http.MethodGet, t.files+"/", header, nil)
	if err != nil {
		return err
	}
	return errors.Join(
		same("status", response.StatusCode, 304),
		same("bytes of content", len(body), 0),
	)
}

func notFound(t *target) error {
	response, _, err := t.fetch(http.MethodGet, t.files+"/not/here", nil, nil)
	if err != nil {
		return err
	}
	return same("status", response.StatusCode, 404)
}

func download(t *target) error {
	response, err := t.client.Get(t.files + "/big.bin")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, response.Body)
	return errors.Join(
		err,
		same("size", size, t.size),
		same("hash", hex.EncodeToString(hash.Sum(nil)), t.hash),
	)
}

func post(t *target) error {
	return t.echo(bytes.NewReader(noise(5_000_000)), noise(5_000_000))
}

func unknownLength(t *target) error {
	content := noise(300_000)
	// The client cannot know the length of a plain reader.
	return t.echo(io.MultiReader(bytes.NewReader(content)), content)
}

func trailers(t *target) error {
	request, err := http.NewRequest(http.MethodPost, t.proxy+"/echo", io.MultiReader(strings.NewReader("five!")))
	if err != nil {
		return err
	}
	request.Header = takesTrailers()
	request.Trailer = http.Header{"X-From-Client": {"after the body"}}
	response, err := t.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return errors.Join(
		err,
		same("content", string(body), "five!"),
		same("x-length", response.Trailer.Get("X-Length"), "5"),
		same("x-from-client", response.Trailer.Get("X-From-Client"), "after the body"),
	)
}

// A request that ends with its head reaches the upstream without any announcement of content.
func withoutBody(t *target) error {
	var all error
	for _, method := range []string{"GET", "DELETE", "OPTIONS"} {
		_, body, err := t.fetch(method, t.proxy+"/head", nil, nil)
		all = errors.Join(all, err)
		head := strings.ToLower(string(body))
		if !strings.HasPrefix(head, strings.ToLower(method)+" ") {
			all = errors.Join(all, fmt.Errorf("%s: the upstream got %q", method, head))
		}
		for _, announced := range []string{"\ntransfer-encoding:", "\ncontent-length:"} {
			if strings.Contains(head, announced) {
				all = errors.Join(all, fmt.Errorf("%s: the upstream got %q", method, announced))
			}
		}
	}
	return all
}

func hundredDownloads(t *target) error {
	return hundredTimes(func() error {
		header := http.Header{"Range": {"bytes=0-99999"}}
		response, body, err := t.fetch(http.MethodGet, t.files+"/big.bin", header, nil)
		if err != nil {
			return err
		}
		return errors.Join(
			same("status", response.StatusCode, 206),
			same("bytes of content", len(body), 100_000),
		)
	})
}

func hundredPosts(t *target) error {
	content := noise(20_000)
	return hundredTimes(func() error { return t.echo(bytes.NewReader(content), content) })
}

func largeHeaders(t *target) error {
	header := http.Header{"X-Large": {strings.Repeat("x", 40_000)}}
	response, body, err := t.fetch(http.MethodGet, t.proxy+"/head", header, nil)
	if err != nil {
		return err
	}
	var missing error
	if !strings.Contains(string(body), header.Get("X-Large")) {
		missing = errors.New("the upstream did not get the field")
	}
	return errors.Join(same("status", response.StatusCode, 200), missing)
}

// The client reads an answer that does not wait for the body, each time.
func tooLarge(t *target) error {
	content := noise(5_000_000)
	for i := range 20 {
		response, _, err := t.fetch(http.MethodPost, t.limited+"/echo", nil, bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		err = errors.Join(
			same("status", response.StatusCode, 413),
			// A client without notice would send the next request into the closing (RFC 9112 §9.6).
			same("end of the connection", response.Close, t.proto == "HTTP/1.1"),
		)
		if err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

// Sends content to the upstream, which returns it with its length as a trailer field.
func (t *target) echo(content io.Reader, want []byte) error {
	response, body, err := t.fetch(http.MethodPost, t.proxy+"/echo", takesTrailers(), content)
	if err != nil {
		return err
	}
	var changed error
	if !bytes.Equal(body, want) {
		changed = fmt.Errorf("%d bytes came back changed, as %d", len(want), len(body))
	}
	return errors.Join(
		same("status", response.StatusCode, 200),
		changed,
		same("x-length", response.Trailer.Get("X-Length"), strconv.Itoa(len(want))),
	)
}

// The upstream sends trailers only for this field (RFC 9110 §6.5.1).
func takesTrailers() http.Header {
	return http.Header{"Te": {"trailers"}}
}

func (t *target) fetch(method, url string, header http.Header, content io.Reader) (*http.Response, []byte, error) {
	request, err := http.NewRequest(method, url, content)
	if err != nil {
		return nil, nil, err
	}
	if header != nil {
		request.Header = header
	}
	response, err := t.client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, body, err
}

func hundredTimes(try func() error) error {
	results := make([]error, 100)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() { results[i] = try() })
	}
	group.Wait()
	for i, err := range results {
		if err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

func same[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, not %v", what, got, want)
	}
	return nil
}

// Returns bytes of which no two pieces are alike, the same each time.
func noise(size int) []byte {
	bytes := make([]byte, size)
	source := rand.NewChaCha8([32]byte{})
	source.Read(bytes)
	return bytes
}
