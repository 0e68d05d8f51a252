// Package rtr gets validated ROA payloads from a cache by the RPKI-to-Router protocol. It
// speaks version 1 (RFC 8210), and version 0 (RFC 6810) with caches that know no other.
package rtr
