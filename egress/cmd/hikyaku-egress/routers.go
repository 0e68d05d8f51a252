package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"hikyaku/egress/api"
)

// showRouters prints the routers that hand on the routes of egress peers.
func (v viewer) showRouters(ctx context.Context) error {
	routers, err := v.client.Routers(ctx)
	switch {
	case err != nil:
		return err
	case v.json:
		return v.print(api.RouterList{Routers: routers})
	case len(routers) == 0:
		_, err := fmt.Fprintln(v.out, "no router hands on the routes of egress peers")
		return err
	}
	return v.routers(routers)
}

func (v viewer) routers(list []api.Router) error {
	w := tabwriter.NewWriter(v.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROUTER\tKIND\tSTATE\tENDS\tIPV6\tIPV4\tREFUSED\tLAST ERROR")
	for _, r := range list {
		state, reason := "up", r.LastError
		if !r.Up {
			state, reason = "down", r.Error
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", r.Name, r.Kind, state, r.Ends, r.Routes.IPv6, r.Routes.IPv4,
			refusedText(r.Refused), orNone(reason))
	}
	fmt.Fprintln(w, "\nROUTER\tPEER\tADDRESS\tASN\tSTATE\tIPV6\tIPV4\tREASON")
	for _, r := range list {
		for _, p := range r.Peers {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%d\t%d\t%s\n", r.Name, orNone(p.Name), p.Address, p.ASN, p.State,
				p.Routes.IPv6, p.Routes.IPv4, orNone(p.Reason))
		}
	}
	return w.Flush()
}
