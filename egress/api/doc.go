// Package api is the local HTTP/JSON API of the egress agents, on a Unix socket: the types,
// the server and a client. docs/egress-api.yaml describes it as OpenAPI, docs/egress-api.md
// for people; tests hold both to the served API.
//
// The edge server reads from it which paths there are and by which mark or address each is
// taken. It also reads which of them reach a client, and every change of that. It sets the
// content class of MPTCP connections. Operators drain paths and set policies.
package api
