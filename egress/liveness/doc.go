// Package liveness decides from probes which SIDs of border routers answer. It does no I/O
// and has no clock: times come in, and the SIDs to probe next and verdicts come out.
//
// A border is dead when none of its SIDs has answered for [Config.Interval] times
// [Config.Lost]. So a border with 50 peers costs as many probes as one with two. Its SIDs
// are probed in turn, and one that alone stays silent is dead, too. One that has never
// answered is not judged: its border may not answer at all, as one of another make.
//
// # Damping
//
// A SID that was dead is in use again when it has answered for [Config.Hold]. That time
// doubles with each death that follows within [forget].
//
// # Local starvation
//
// A busy machine must not take its own lateness for a border's death. Only time
// counts in which the caller was there to send and to read. Less of it counts while the
// machine is late with packets to itself. See [Monitor.Tick].
package liveness
