package port

import (
	"math"
	"time"
)

// Limits are the loads at which a [Controller] acts, as parts of the port's limit.
type Limits struct {
	// High is the load above which clients leave, Target the load that they leave behind.
	High, Target float64
	// Low is the load up to which clients come back.
	Low float64
	// Urgent is the load above which a single mean counts. Below it those of half a minute count
	// together.
	Urgent float64
	// Full is the load from which on the demand is higher than the load.
	Full float64
	// Mean is the time over which the load is averaged.
	Mean time.Duration
	// Lenient is whether clients beyond the level stay while no other port is better for them.
	Lenient bool
	// Patience is the longest time that a rise is put off after others proved wrong.
	Patience time.Duration
	// Memory is the time without a change after which a rise that proved wrong is repeated at the same
	// load, 0 for never.
	Memory time.Duration
}

// CapacityLimits are the limits of a port that shall not be filled beyond a share of its
// capacity, such as 0.9.
func CapacityLimits(fill float64) Limits {
	return Limits{High: fill, Target: 0.985 * fill, Low: 0.97 * fill, Urgent: 1.05 * fill, Full: 0.97, Mean: 5 * time.Second, Patience: MaxPatience}
}

// billLimits are those of the rate that is billed anyway. A port above it loses no packet, while one
// below it leaves traffic to ports where it costs. So a rise is put off for at most three intervals
// of the bill. After an hour without a change demand is another, and any level is tried again.
var billLimits = Limits{
	High: 1.012, Target: 1, Low: 0.985, Urgent: 1.03, Full: math.Inf(1), Mean: time.Minute, Lenient: true,
	Patience: 3 * Interval, Memory: time.Hour,
}

// Controller keeps a load below a limit by a level, the number of clients that may be on the port.
//
// Servers follow a level after a delay of up to [Settle]. So each change is followed by as
// much silence, and its effect is measured before the next one. It lowers the level as far
// as the load demands. It raises the level when the load of one more step is expected to
// stay below Low. A rise that proves wrong is not repeated at the same load. It
// doubles the time until the next, up to Patience. Therefore a steady demand is met
// by a finite number of changes, and controllers cannot swing against each other.
type Controller struct {
	limits Limits
	level  int
	// step is the load of one step of the level, as the last change has shown it.
	step float64
	// buckets are means of load since the last change, the latest last.
	buckets []float64
	sum     float64
	seconds float64
	// quiet is the time until which nothing is measured, changed that of the last change.
	quiet, changed time.Duration
	// before is the load before the last change of so many steps, whose effect is to be learnt. rose:
	// it was a rise.
	before float64
	steps  int
	rose   bool
	// expected is by how much the last change was to lower the load. spilt: clients stay beyond the
	// level, until the load is below the limit again.
	expected float64
	spilt    bool
	patience time.Duration
	// tooHigh is the level that the last wrong rise led to, from the load tooHighFrom; 0 for
	// none. from is the load before the last change.
	tooHigh     int
	tooHighFrom float64
	from        float64
}

// Times of a controller.
const (
	// Settle is the time in which servers follow a level: BGP's delay, and until
	// congestion controls have found their new rates.
	Settle = 15 * time.Second
	// confirmed is the time over which a load is averaged that is not urgent.
	confirmed = 30 * time.Second
	// watched is the time without a peak that allows a rise.
	watched = time.Minute
	// minPatience is the least time between a change and a rise.
	minPatience = time.Minute
	// MaxPatience is the Patience of a port that loses packets when a rise proves wrong.
	MaxPatience = time.Hour
	// retry is the time after which a change that had no effect is tried again.
	retry = 3 * time.Minute
	// minEffect is the part of its expected effect that a change must have.
	minEffect = 0.3
	// maxRise is how many steps are taken up at once.
	maxRise = maxLevel / 8
)

// NewController returns one at a level from 0, for nobody, to that of [All].
func NewController(limits Limits, level int) *Controller {
	return &Controller{limits: limits, level: min(max(level, 0), maxLevel), patience: minPatience}
}

// Limit sets other limits, and a limit that is `scale` times the former one. The level goes on
// from where it is, and loads are measured anew.
func (c *Controller) Limit(limits Limits, scale float64) {
	c.limits = limits
	c.step /= scale
	c.buckets, c.sum, c.seconds, c.steps = c.buckets[:0], 0, 0, 0
	c.tooHigh, c.patience = 0, minPatience
}

// Shares are the clients that may be on the port.
func (c *Controller) Shares() Shares { return sharesOf(c.level) }

// Observe takes the load over the last `lasted`, as a part of the limit. now only grows.
func (c *Controller) Observe(now, lasted time.Duration, load float64) {
	if now <= c.quiet && c.changed > 0 {
		return
	}
	c.sum += load * lasted.Seconds()
	c.seconds += lasted.Seconds()
	if c.seconds < c.limits.Mean.Seconds() {
		return
	}
	mean := c.sum / c.seconds
	c.sum, c.seconds = 0, 0
	watch := max(int(watched/c.limits.Mean), 2)
	if len(c.buckets) == watch {
		c.buckets = append(c.buckets[:0], c.buckets[1:]...)
	}
	c.buckets = append(c.buckets, mean)
	if c.limits.Lenient && c.spills(now, mean) {
		return
	}
	c.learn(mean)
	switch {
	case c.level > 0 && c.over():
		c.lower(now, mean)
	case c.level < maxLevel && len(c.buckets) == watch && now-c.changed >= c.patience:
		c.raise(now, mean)
	}
}

// over reports whether the load is above the limit, and not for a moment alone.
func (c *Controller) over() bool {
	last := len(c.buckets) - 1
	if c.buckets[last] > c.limits.Urgent {
		return true
	}
	confirming := max(int(confirmed/c.limits.Mean), 1)
	if len(c.buckets) < confirming {
		return false
	}
	sum := 0.0
	for _, load := range c.buckets[len(c.buckets)-confirming:] {
		sum += load
	}
	return sum > c.limits.High*float64(confirming)
}

// spills reports whether the load is above the limit by clients whom the level does not move: no
// other port is better for them. The first change that shows this is taken back. Else the level would
// fall to nobody, and all would leave as soon as another port is better.
func (c *Controller) spills(now time.Duration, mean float64) bool {
	if c.spilt {
		c.spilt = mean > c.limits.High && now-c.changed < retry
		return c.spilt
	}
	if c.steps >= 0 || mean <= c.limits.High || c.before-mean > minEffect*c.expected {
		return false
	}
	c.level -= c.steps
	c.steps, c.spilt = 0, true
	return true
}

// learn measures the effect of the last change.
func (c *Controller) learn(mean float64) {
	if c.steps == 0 {
		return
	}
	step := (mean - c.before) / float64(c.steps)
	c.steps = 0
	// Demand changes meanwhile, too: no less than a small share is believed.
	c.step = min(max(step, mean/(2*maxLevel)), 1)
}

func (c *Controller) lower(now time.Duration, mean float64) {
	if now-c.changed < 2*c.patience && c.rose {
		c.patience = min(2*c.patience, c.limits.Patience)
		c.tooHigh, c.tooHighFrom = c.level, c.from
	}
	// The load is spread over the levels, more or less evenly.
	step := min(max(c.step, mean/maxLevel), 2*mean/float64(c.level))
	steps := int(math.Ceil((mean - c.limits.Target) / step))
	if mean >= c.limits.Full {
		steps = max(steps, (c.level+3)/4) // the counter does not show how much more is wanted
	}
	steps = min(max(steps, 1), c.level)
	c.expected = step * float64(steps)
	c.change(now, mean, -steps)
}

// raise takes clients back, where even the peaks of the last minute leave room.
func (c *Controller) raise(now time.Duration, mean float64) {
	peak := mean
	for _, load := range c.buckets {
		peak = max(peak, load)
	}
	step := max(c.step, mean/float64(max(c.level, maxLevel/32)))
	steps := min(int((c.limits.Low-peak)/max(step, 1e-4)), maxRise, maxLevel-c.level)
	if steps < 1 && peak < c.limits.Low/2 {
		// So large a step was learnt as demand changed. It must not keep an idle port closed.
		c.step /= 2
	}
	if c.limits.Memory > 0 && now-c.changed > c.limits.Memory {
		c.tooHigh = 0
	}
	// A port that is hardly used may try it again: something else has filled it.
	if c.tooHigh > 0 && mean > max(0.9*c.tooHighFrom, c.limits.Low/2) {
		steps = min(steps, c.tooHigh-1-c.level)
	}
	if steps < 1 {
		return
	}
	if now-c.changed > MaxPatience {
		c.patience = minPatience
	}
	c.change(now, mean, steps)
}

func (c *Controller) change(now time.Duration, mean float64, steps int) {
	c.level += steps
	c.from = mean
	c.before, c.steps, c.rose = mean, steps, steps > 0
	c.changed, c.quiet = now, now+Settle
	c.buckets = c.buckets[:0]
}
