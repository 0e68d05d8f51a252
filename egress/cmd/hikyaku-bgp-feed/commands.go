package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"
)

// obey does one command.
func obey(ctx context.Context, n neighbour, words []string) error {
	if len(words) == 0 {
		return errors.New("empty command")
	}
	command, words := words[0], words[1:]
	switch command {
	case "wait":
		return n.wait(ctx)
	case "announce", "withdraw":
		prefixes, err := parsePrefixes(words)
		if err != nil {
			return err
		}
		if command == "announce" {
			return n.announce(prefixes)
		}
		return n.withdraw(prefixes)
	}
	l, ok := n.(*lean)
	if !ok {
		return fmt.Errorf("%q is not for this speaker", command)
	}
	switch command {
	case "load":
		r, err := parseRange(words)
		if err != nil {
			return err
		}
		return l.load(r)
	case "churn":
		return parseChurn(ctx, l, words)
	case "close":
		return l.hangUp()
	case "open":
		l.admit()
		return nil
	}
	return fmt.Errorf("unknown command %q", command)
}

func parsePrefixes(words []string) ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(words))
	for _, word := range words {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, err
		}
		if !p.Addr().Is6() || p != p.Masked() {
			return nil, fmt.Errorf("%s: not an IPv6 prefix without bits after its length", word)
		}
		prefixes = append(prefixes, p)
	}
	if len(prefixes) == 0 {
		return nil, errors.New("no prefix given")
	}
	return prefixes, nil
}

// prefixRange is prefixes of one length that follow each other.
type prefixRange struct {
	first netip.Prefix
	count int
}

// at returns the i-th prefix.
func (r prefixRange) at(i int) netip.Prefix {
	bytes, bits := r.first.Addr().As16(), r.first.Bits()
	// A carry of the addition to the network part goes towards its front.
	sum := uint64(i) << ((8 - bits%8) % 8)
	for place := (bits - 1) / 8; place >= 0 && sum > 0; place-- {
		sum += uint64(bytes[place])
		bytes[place] = byte(sum)
		sum >>= 8
	}
	return netip.PrefixFrom(netip.AddrFrom16(bytes), bits)
}

// parseRange reads FIRST COUNT.
func parseRange(words []string) (prefixRange, error) {
	if len(words) < 2 {
		return prefixRange{}, errors.New("expected FIRST COUNT")
	}
	first, err := parsePrefixes(words[:1])
	if err != nil {
		return prefixRange{}, err
	}
	count, err := strconv.Atoi(words[1])
	if err != nil || count < 1 || first[0].Bits() == 0 {
		return prefixRange{}, fmt.Errorf("%s %s: no prefix, or no number of them", words[0], words[1])
	}
	return prefixRange{first[0], count}, nil
}

// parseChurn reads FIRST COUNT RATE DURATION FILE.
func parseChurn(ctx context.Context, l *lean, words []string) error {
	if len(words) != 5 {
		return errors.New("expected FIRST COUNT RATE DURATION FILE")
	}
	r, err := parseRange(words)
	if err != nil {
		return err
	}
	rate, err := strconv.Atoi(words[2])
	if err != nil || rate < 1 {
		return fmt.Errorf("%q updates a second: expected a number from 1", words[2])
	}
	duration, err := time.ParseDuration(words[3])
	if err != nil {
		return err
	}
	return l.churn(ctx, r, rate, duration, words[4])
}
