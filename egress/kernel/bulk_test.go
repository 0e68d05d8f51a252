package kernel

import (
	"encoding/binary"
	"net/netip"
)

// manyRoutes gives n IPv6 prefixes of a full table's common lengths, all unlike.
func manyRoutes(n int, table uint32, hop NexthopID) []Route {
	routes := make([]Route, n)
	for i := range routes {
		var raw [16]byte
		binary.BigEndian.PutUint32(raw[:], 0x2a000000+uint32(i))
		binary.BigEndian.PutUint16(raw[4:], uint16(i*7919))
		bits := []int{32, 36, 40, 44, 48, 48}[i%6]
		routes[i] = Route{Prefix: netip.PrefixFrom(netip.AddrFrom16(raw), bits).Masked(), Table: table, Nexthop: hop}
	}
	return routes
}
