package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
)

// Client asks an agent. Its errors wrap [ErrNotFound], [ErrInvalid] or
// [ErrUnsupported] where the agent's do.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient returns a client of the socket at path. It connects when it is
// first asked.
func NewClient(path string) *Client {
	var dialer net.Dialer
	return &Client{path, &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		},
	}}}
}

// Close closes connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status returns the agent in short.
func (c *Client) Status(ctx context.Context) (status Status, err error) {
	return status, c.ask(ctx, "GET", "/v1/status", nil, &status)
}

// Paths returns all paths.
func (c *Client) Paths(ctx context.Context) ([]Path, error) {
	var list PathList
	err := c.ask(ctx, "GET", "/v1/paths", nil, &list)
	return list.Paths, err
}

// Path returns one path.
func (c *Client) Path(ctx context.Context, name string) (path Path, err error) {
	return path, c.ask(ctx, "GET", "/v1/paths/"+url.PathEscape(name), nil, &path)
}

// Sessions returns all BGP sessions.
func (c *Client) Sessions(ctx context.Context) ([]Session, error) {
	var list SessionList
	err := c.ask(ctx, "GET", "/v1/sessions", nil, &list)
	return list.Sessions, err
}

// Lookup asks for the paths that reach a client.
func (c *Client) Lookup(ctx context.Context, client netip.Prefix) (lookup Lookup, err error) {
	query := url.Values{"client": {client.String()}}
	return lookup, c.ask(ctx, "GET", "/v1/lookup?"+query.Encode(), nil, &lookup)
}

// Lookups is [Client.Lookup] of up to 1000 clients at once, in their order.
func (c *Client) Lookups(ctx context.Context, clients []netip.Prefix) ([]Lookup, error) {
	var request LookupRequest
	for _, client := range clients {
		request.Clients = append(request.Clients, ClientPrefix(client))
	}
	var list LookupList
	err := c.ask(ctx, "POST", "/v1/lookup", request, &list)
	return list.Lookups, err
}

// Drain drains a path.
func (c *Client) Drain(ctx context.Context, name, reason string) (path Path, err error) {
	return path, c.ask(ctx, "PUT", "/v1/paths/"+url.PathEscape(name)+"/drain", DrainRequest{reason}, &path)
}

// Undrain ends a drain.
func (c *Client) Undrain(ctx context.Context, name string) (path Path, err error) {
	return path, c.ask(ctx, "DELETE", "/v1/paths/"+url.PathEscape(name)+"/drain", nil, &path)
}

// Policies returns all policies.
func (c *Client) Policies(ctx context.Context) ([]Policy, error) {
	var list PolicyList
	err := c.ask(ctx, "GET", "/v1/policies", nil, &list)
	return list.Policies, err
}

// SetPolicy makes a policy or replaces the one of its name.
func (c *Client) SetPolicy(ctx context.Context, policy Policy) error {
	return c.ask(ctx, "PUT", "/v1/policies/"+url.PathEscape(policy.Name), policy, nil)
}

// DeletePolicy removes a policy.
func (c *Client) DeletePolicy(ctx context.Context, name string) error {
	return c.ask(ctx, "DELETE", "/v1/policies/"+url.PathEscape(name), nil, nil)
}

// Routes returns up to limit routes that overlap a prefix; all where it is not valid.
func (c *Client) Routes(ctx context.Context, within netip.Prefix, limit int) (list RouteList, err error) {
	return list, c.ask(ctx, "GET", "/v1/routes?"+listQuery(within, limit), nil, &list)
}

// Why asks how packets to a client may leave.
func (c *Client) Why(ctx context.Context, client netip.Prefix) (why Explanation, err error) {
	query := url.Values{"client": {client.String()}}
	return why, c.ask(ctx, "GET", "/v1/why?"+query.Encode(), nil, &why)
}

// Peers returns the egress peers of a border's configuration.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	var list PeerList
	err := c.ask(ctx, "GET", "/v1/peers", nil, &list)
	return list.Peers, err
}

// SetPeer adds an egress peer to a border's configuration, or replaces the one that was added so.
// It returns the changes, as sentences.
func (c *Client) SetPeer(ctx context.Context, name string, settings PeerSettings) ([]string, error) {
	var changed Reloaded
	err := c.ask(ctx, "PUT", "/v1/peers/"+url.PathEscape(name), settings, &changed)
	return changed.Changes, err
}

// DeletePeer removes a peer that [Client.SetPeer] has added.
func (c *Client) DeletePeer(ctx context.Context, name string) ([]string, error) {
	var changed Reloaded
	err := c.ask(ctx, "DELETE", "/v1/peers/"+url.PathEscape(name), nil, &changed)
	return changed.Changes, err
}

// Reload has the agent read its configuration again. It returns the changes, as sentences.
func (c *Client) Reload(ctx context.Context) ([]string, error) {
	var reloaded Reloaded
	err := c.ask(ctx, "POST", "/v1/reload", nil, &reloaded)
	return reloaded.Changes, err
}

// Connections returns up to limit MPTCP connections of clients within a prefix; all where it is
// not valid.
func (c *Client) Connections(ctx context.Context, within netip.Prefix, limit int) (list ConnectionList, err error) {
	return list, c.ask(ctx, "GET", "/v1/connections?"+listQuery(within, limit), nil, &list)
}

func listQuery(within netip.Prefix, limit int) string {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if within.IsValid() {
		query.Set("within", within.String())
	}
	return query.Encode()
}

// SetConnection gives the agent the properties of an MPTCP connection that it cannot see.
func (c *Client) SetConnection(ctx context.Context, connection Connection) error {
	return c.ask(ctx, "PUT", "/v1/connections", connection, nil)
}

// Events yields the agent's events, a snapshot first. It ends with an error when the
// agent stops, or when ctx ends; then call it again for a fresh snapshot.
func (c *Client) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		response, err := c.send(ctx, "GET", "/v1/events", nil)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer response.Body.Close()
		err = readEvents(bufio.NewReader(response.Body), yield)
		if err != nil {
			yield(Event{}, fmt.Errorf("reading events from %s: %w", c.socket, err))
		}
	}
}

// readEvents yields events until yield wants no more, then it returns nil.
func readEvents(from *bufio.Reader, yield func(Event, error) bool) error {
	var name string
	for {
		line, err := from.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // Streams of the agent have no end of their own.
		}
		if err != nil {
			return err
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if after, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			name = string(after)
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		event, known, err := decodeEvent(name, data)
		if err != nil {
			return err
		}
		if known && !yield(event, nil) {
			return nil
		}
	}
}

// ask sends a request and decodes the answer into a value, unless it is nil.
func (c *Client) ask(ctx context.Context, method, path string, body, into any) error {
	response, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// send returns the answer where it is a success.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("asking %s: %w", c.socket, err)
		}
		reader = bytes.NewReader(text)
	}
	// The host is for HTTP's sake; the socket is the address.
	request, err := http.NewRequestWithContext(ctx, method, "http://egress"+path, reader)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", c.socket, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking hikyaku-egress at %s: %w%s", c.socket, err, hint(err))
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	return nil, failure(response)
}

// hint names the remedy when nobody answers.
func hint(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return " (does the agent run?)"
	case errors.Is(err, fs.ErrPermission):
		return " (be root, or in the group of `api.group`)"
	}
	return ""
}

// agentError is an agent's answer.
type agentError struct {
	message string
	kind    error
}

// Error implements error.
func (e *agentError) Error() string { return e.message }

// Unwrap returns [ErrNotFound] and its like, or nil.
func (e *agentError) Unwrap() error { return e.kind }

func failure(response *http.Response) error {
	var body Failure
	if err := json.NewDecoder(io.LimitReader(response.Body, maxBody)).Decode(&body); err != nil || body.Error == "" {
		body.Error = response.Status
	}
	err := &agentError{message: body.Error}
	for _, known := range statuses {
		if known.status == response.StatusCode {
			err.kind = known.err
		}
	}
	return err
}
