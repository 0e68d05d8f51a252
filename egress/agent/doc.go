// Package agent runs a border or a content server. BGP events go to a planner, its steps go
// to the kernel and to BGP, and the local API shows and changes the state.
//
// One goroutine, the loop, changes a planner. Steps are small, so that a change of
// one prefix does not wait for 200,000 others. What the loop learned meanwhile is
// planned together: bursts get cheaper by themselves, without a timer.
//
// # Crashes
//
// An agent that was killed leaves the kernel as it was: packets go on. The next one reads
// it back and goes on from there; see packages border and endpoint. An agent that is
// stopped withdraws everything and removes its own state.
package agent
