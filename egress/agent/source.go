package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

// sourceFile has, in the state directory, the tunnel source that was there before ours. The
// kernel has room for one, and a crash must not make ours the one to put back.
const sourceFile = "tunnel-source"

// rememberSource returns the tunnel source to put back at the stop, the zero value for
// none. It is the kernel's, or, where that is ours by a former run, the one that this run
// found. It is nil where ours is there and nobody knows why: it may be the operator's own.
func rememberSource(dir string, has, ours kernel.TunnelSource) (*kernel.TunnelSource, error) {
	path := filepath.Join(dir, sourceFile)
	if has == ours {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		var former netip.Addr
		if err == nil {
			former, err = netip.ParseAddr(strings.TrimSpace(string(text)))
		}
		if err != nil {
			return nil, fmt.Errorf("reading the former tunnel source from %s: %w", path, err)
		}
		if former.IsUnspecified() {
			former = netip.Addr{}
		}
		return &kernel.TunnelSource{Addr: former}, nil
	}
	text := netip.IPv6Unspecified().String()
	if has.IsValid() {
		text = has.String()
	}
	if err := api.ReplaceFile(path, []byte(text+"\n")); err != nil {
		return nil, fmt.Errorf("writing the former tunnel source to %s: %w", path, err)
	}
	return &has, nil
}

// leaveSource puts the former tunnel source back, unless somebody has changed ours.
func leaveSource(ctx context.Context, h *host, c *config.Server, former kernel.TunnelSource) error {
	now, err := h.applier.TunnelSource()
	if err == nil && now.Addr == c.SRv6.TunnelSource {
		err = h.restoreSource(ctx, former)
	}
	if err != nil {
		return fmt.Errorf("putting the former tunnel source back: %w", err)
	}
	err = os.Remove(filepath.Join(c.State.Dir, sourceFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
