package kernel

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
)

// ForeignRoutes counts the routes in a table that have another protocol number than ours, by
// that number. It reads the whole table.
func (a *Applier) ForeignRoutes(ctx context.Context, table uint32) (map[uint8]int, error) {
	all := make(map[uint8]int)
	for _, family := range []Family{IPv6, IPv4} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found := make(map[uint8]int)
		var b rtnl.Batch
		b.Begin(unix.RTM_GETROUTE, unix.NLM_F_DUMP, uint8(family), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		b.Uint32(unix.RTA_TABLE, table)
		b.End()
		err := a.reading.Query(&b, func() { clear(found) }, func(_ uint16, body []byte) error {
			if len(body) >= routeHeaderSize && body[5] != a.protocol {
				found[body[5]]++
			}
			return nil
		})
		if err != nil && !errors.Is(err, unix.ENOENT) { // nobody has such a table
			return nil, fmt.Errorf("reading %s table %d: %w", family, table, err)
		}
		for protocol, n := range found {
			all[protocol] += n
		}
	}
	return all, nil
}
