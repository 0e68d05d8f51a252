package main

import (
	"context"
	"fmt"
	"io"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
)

const reloadUsage = `Usage: hikyaku-egress reload [OPTIONS]

Has a running agent read its configuration again, and prints what has changed. The
agent takes the whole file or nothing of it: it refuses a wrong one, and one with a
change that needs a restart, and says why. Sessions that need not close stay up.

Options:
  --config FILE  take the socket from this configuration
  --socket PATH  socket of the agent (default %s)
  --json         print JSON, as in docs/egress-api.yaml
`

func runReload(ctx context.Context, args []string, out, _ io.Writer) error {
	usage := fmt.Sprintf(reloadUsage, config.DefaultServer().API.Socket)
	v, words, err := newViewer("reload", usage, args, out)
	switch {
	case err != nil:
		return err
	case len(words) > 0:
		return usageError{fmt.Errorf("unexpected argument %q", words[0])}
	}
	changes, err := v.client.Reload(ctx)
	if err != nil {
		return err
	}
	if v.json {
		return v.print(api.Reloaded{Changes: changes})
	}
	if len(changes) == 0 {
		_, err := fmt.Fprintln(out, "the configuration is as before")
		return err
	}
	for _, change := range changes {
		if _, err := fmt.Fprintln(out, change); err != nil {
			return err
		}
	}
	return nil
}
