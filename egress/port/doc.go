// Package port plans how much traffic a border's ports take, and what they cost.
//
// A port is an interface by which packets leave the AS. A border reads its counter and
// publishes a [State], which content servers follow. Nobody else decides, so that servers
// need not know of each other: a client's place is a hash, the same on all of them.
//
//   - A [Controller] keeps the load below a limit. It lowers the share of clients that may use
//     the port, content that wants goodput first, before packets are lost.
//   - A [Bill] has the rates of the month, by which the port is billed (95th percentile). A
//     second controller keeps the load below the billed rate.
//   - A [Port] joins them.
//
// The package is pure: times and rates come in as arguments.
package port
