// Package rpki validates the origins of BGP routes (RFC 6811) by validated ROA payloads
// (VRPs), which package rtr gets from caches.
package rpki
