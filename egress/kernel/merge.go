package kernel

import (
	"iter"
	"slices"
)

// each returns a slice with normal applied to each item, or items itself if that
// changes nothing: large tables are in normal form already.
func each[T comparable](items []T, normal func(T) T) []T {
	for i, item := range items {
		if normal(item) == item {
			continue
		}
		changed := slices.Clone(items)
		for ; i < len(changed); i++ {
			changed[i] = normal(changed[i])
		}
		return changed
	}
	return items
}

// sorted returns the items in order, the first of each key alone. It copies only if
// it must.
func sorted[T any](items []T, compare func(a, b T) int) []T {
	strictly := true
	for i := 1; i < len(items) && strictly; i++ {
		strictly = compare(items[i-1], items[i]) < 0
	}
	if strictly {
		return items
	}
	items = slices.Clone(items)
	slices.SortStableFunc(items, compare)
	return slices.CompactFunc(items, func(a, b T) bool { return compare(a, b) == 0 })
}

// merge yields the items of both sorted slices in order, paired by key; the side that
// lacks one is nil.
func merge[T any](have, want []T, compare func(a, b T) int) iter.Seq2[*T, *T] {
	return func(yield func(h, w *T) bool) {
		for len(have) > 0 || len(want) > 0 {
			var h, w *T
			order := 0
			switch {
			case len(have) == 0:
				order = 1
			case len(want) == 0:
				order = -1
			default:
				order = compare(have[0], want[0])
			}
			if order <= 0 {
				h, have = &have[0], have[1:]
			}
			if order >= 0 {
				w, want = &want[0], want[1:]
			}
			if !yield(h, w) {
				return
			}
		}
	}
}
