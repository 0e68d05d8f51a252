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
	// Urgent is the load above which a single mean of some seconds counts. Below it another
	// must confirm it.
	Urgent float64
	// Full is the load from which on the demand is higher than the load.
	Full float64
}

// CapacityLimits are the limits of a port that shall not be filled beyond a share of its
// capacity, such as 0.9.
func CapacityLimits(fill float64) Limits {
	return Limits{High: fill, Target: 0.98 * fill, Low: 0.95 * fill, Urgent: 1.05 * fill, Full: 0.97}
}

// billLimits are those of the rate that is billed anyway.
var billLimits = Limits{High: 1.02, Target: 1, Low: 0.98, Urgent: 1.06, Full: math.Inf(1)}

// Controller keeps a load below a limit by a level, the number of clients that may be on the port.
//
// Servers follow a level after a delay of up to [Settle]. So each change is followed by as
// much silence, and its effect is measured before the next one. It lowers the level as far
// as the load demands. It raises the level when the load of one more step is expected to
// stay below Low. A rise that proves wrong is not repeated at the same load. It
// doubles the time until the next, up to [MaxPatience]. Therefore a steady demand is met
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
	before   float64
	steps    int
	rose     bool
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
	// bucket is how long a load is averaged, and watch how many buckets without a peak
	// allow a rise.
	bucket = 5 * time.Second
	watch  = 12
	// minPatience is the least time between a change and a rise.
	minPatience = time.Minute
	// MaxPatience is the longest time that a rise is put off after others proved wrong.
	MaxPatience = time.Hour
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
	if c.seconds < bucket.Seconds() {
		return
	}
	mean := c.sum / c.seconds
	c.sum, c.seconds = 0, 0
	if len(c.buckets) == watch {
		c.buckets = append(c.buckets[:0], c.buckets[1:]...)
	}
	c.buckets = append(c.buckets, mean)
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
	mean := c.buckets[last]
	return mean > c.limits.Urgent || (mean > c.limits.High && last > 0 && c.buckets[last-1] > c.limits.High)
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
		c.patience = min(2*c.patience, MaxPatience)
		c.tooHigh, c.tooHighFrom = c.level, c.from
	}
	// The load is spread over the levels, more or less evenly.
	step := min(max(c.step, mean/maxLevel), 2*mean/float64(c.level))
	steps := int(math.Ceil((mean - c.limits.Target) / step))
	if mean >= c.limits.Full {
		steps = max(steps, (c.level+3)/4) // the counter does not show how much more is wanted
	}
	c.change(now, mean, -min(max(steps, 1), c.level))
}

// raise takes clients back, where even the peaks of the last minute leave room.
func (c *Controller) raise(now time.Duration, mean float64) {
	peak := mean
	for _, load := range c.buckets {
		peak = max(peak, load)
	}
	step := max(c.step, mean/float64(max(c.level, maxLevel/32)))
	steps := min(int((c.limits.Low-peak)/max(step, 1e-4)), maxRise, maxLevel-c.level)
	if c.tooHigh > 0 && mean > 0.9*c.tooHighFrom {
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
