package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
)

// reloadable are the keys that a reload can change. Those of [flows] are another program's.
var (
	reloadable       = []string{"reflector", "add_path", "peer", "path", "port", "rpki_cache", "log.level", "bgp.hold_time", "srv6.locators"}
	reloadableTables = []string{"flows.", "import.", "probe.", "bmp.", "plain."}
)

// reconfigurable is a role that can take another configuration while it runs.
type reconfigurable interface {
	// reconfiguration returns the steps towards a configuration, in order. It changes
	// nothing, and fails where that cannot be done while the agent runs.
	reconfiguration(next *config.File) ([]step, error)
	// configured takes the configuration as the present one, in the loop.
	configured(next *config.File)
	// present is the configuration.
	present() *config.File
}

// step is a part of a reload. Its do leaves everything as it was where it fails.
type step struct {
	// what it does, a sentence.
	what string
	// check reports beforehand why it cannot be done; nil: it can.
	check    func() error
	do, undo func(context.Context) error
}

// said is a step that the new configuration as a whole does.
func said(what string) step {
	nothing := func(context.Context) error { return nil }
	return step{what: what, do: nothing, undo: nothing}
}

var (
	errNoSource   = fmt.Errorf("%w: this run cannot read its configuration again", api.ErrUnsupported)
	errUnchanged  = "nothing was changed"
	errKeepsAsWas = errors.New("putting back what was there before")
)

// reload reads the configuration again and takes it, as a whole or not at all. It returns what
// has changed, as sentences. It must not be called by the loop. Once it has begun, it ends with
// the agent alone.
func (e *engine) reload() (changes []string, err error) {
	e.changing.Lock()
	defer e.changing.Unlock()
	defer func() {
		e.locked(func() {
			if err == nil {
				e.counts.reloads++
			} else {
				e.counts.reloadsFailed++
			}
		})
	}()
	if e.opts.Source == nil || e.opts.DryRun != nil {
		return nil, errNoSource
	}
	source, err := config.ReadSource(e.opts.Source.Path)
	if err != nil {
		return nil, refused(err)
	}
	source.Peers = e.opts.Source.Peers
	changes, err = e.reconfigure(e.life, source)
	if err != nil {
		return nil, refused(err)
	}
	return changes, nil
}

func refused(err error) error {
	return fmt.Errorf("%w: the configuration is not taken, and %s: %w", api.ErrConflict, errUnchanged, err)
}

// reconfigure takes the configuration that a source has.
func (e *engine) reconfigure(ctx context.Context, source config.Source) ([]string, error) {
	next, err := source.Parse()
	if err != nil {
		return nil, err
	}
	role := e.role.(reconfigurable)
	var steps []step
	e.locked(func() {
		keys := config.Changed(role.present(), next)
		if err = onlyReloadable(keys); err == nil {
			steps, err = role.reconfiguration(next)
		}
		steps = append(steps, settingsSaid(keys, next.Common())...)
	})
	if err != nil {
		return nil, err
	}
	if err := perform(ctx, steps); err != nil {
		return nil, err
	}
	*e.opts.Source = source
	e.setLevel(next.Common().Log.Level)
	err = e.inLoop(ctx, func(context.Context) error {
		e.locked(func() { role.configured(next) })
		return nil
	})
	e.show()
	e.hub.Publish(api.Event{Snapshot: &api.Snapshot{}}) // no event says that something is gone
	changes := make([]string, 0, len(steps))
	for _, s := range steps {
		changes = append(changes, s.what)
		e.log.Info("configuration: " + s.what)
	}
	return changes, err
}

// onlyReloadable refuses changes that need a restart, and names their keys.
func onlyReloadable(changed []string) error {
	keys := slices.DeleteFunc(slices.Clone(changed), func(key string) bool {
		inTable := func(table string) bool { return strings.HasPrefix(key, table) }
		return slices.Contains(reloadable, key) || slices.ContainsFunc(reloadableTables, inTable)
	})
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("a restart is needed for a change of `%s`", strings.Join(keys, "`, `"))
}

// settingsSaid are the steps of changed keys that are taken with the configuration as a whole.
func settingsSaid(changed []string, next *config.Common) (steps []step) {
	var judged bool
	for _, key := range changed {
		switch {
		case key == "log.level":
			steps = append(steps, said(fmt.Sprintf("the log level is %s", next.Log.Level)))
		case strings.HasPrefix(key, "flows."):
			steps = append(steps, said(fmt.Sprintf("`%s` counts when `hikyaku-egress flows` starts again", key)))
		case key == "rpki_cache", strings.HasPrefix(key, "import."):
			judged = true
		}
	}
	if judged {
		steps = append(steps, said("all routes of peers are judged by the new import policy"))
	}
	return steps
}

// perform does all steps, or undoes those that it has done.
func perform(ctx context.Context, steps []step) error {
	for i, s := range steps {
		err := s.do(ctx)
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s: %w", s.what, err)
		back := context.WithoutCancel(ctx)
		for _, done := range slices.Backward(steps[:i]) {
			if failed := done.undo(back); failed != nil {
				err = errors.Join(err, fmt.Errorf("%w, %s: %w", errKeepsAsWas, done.what, failed))
			}
		}
		return err
	}
	return nil
}

// inLoop runs f in the loop, and returns its error.
func (e *engine) inLoop(ctx context.Context, f func(loop context.Context) error) error {
	result := make(chan error, 1)
	if !e.post(ctx, func(loop context.Context) { result <- f(loop) }) {
		return fmt.Errorf("%w: %w", errNotTaken, ctx.Err())
	}
	return <-result
}

// settlePause is how often a part is looked at that is being removed.
const settlePause = 5 * time.Millisecond

// settled waits until the end of a session is known that was removed, and all is done that is
// planned for a part.
func (e *engine) settled(ctx context.Context, name string) error {
	tick := time.NewTicker(settlePause)
	defer tick.Stop()
	for {
		var pending bool
		e.locked(func() { pending = e.role.pending(name) || e.sessions.up(name) })
		if !pending {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("removing %q: %w", name, ctx.Err())
		case <-tick.C:
		}
	}
}

// dropped forgets what the engine knows of a path that is no longer there. It needs the mutex.
func (e *engine) dropped(name string) {
	delete(e.shown, name)
	delete(e.since, name)
	delete(e.failed, name)
}

// redrain begins the drain that was set for a path of this name. It needs the mutex.
func (e *engine) redrain(name string) error {
	if _, drains := e.settings.Drains[name]; !drains {
		return nil
	}
	return e.role.drain(name, true)
}

// setLevel sets the least level that is logged.
func (e *engine) setLevel(level config.Level) {
	if e.opts.Level != nil {
		e.opts.Level.Set(Levels[level])
	}
}

// Levels are the levels of [log/slog] for those of the configuration.
var Levels = map[config.Level]slog.Level{
	config.LevelError: slog.LevelError, config.LevelWarn: slog.LevelWarn,
	config.LevelInfo: slog.LevelInfo, config.LevelDebug: slog.LevelDebug,
}

// watchHangUps reloads at each signal, until ctx ends.
func (e *engine) watchHangUps(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		changes, err := e.reload()
		if err != nil {
			e.log.Error("reloading the configuration", "error", err)
			continue
		}
		e.log.Info("the configuration was reloaded", "changes", len(changes))
	}
}

// entries compares two lists of named entries. changed has those of both that differ.
func entries[T any](had, now []T, name func(*T) string) (removed, added, changed []string) {
	index := func(list []T) map[string]*T {
		byName := make(map[string]*T, len(list))
		for i := range list {
			byName[name(&list[i])] = &list[i]
		}
		return byName
	}
	before, after := index(had), index(now)
	for i := range had {
		if key := name(&had[i]); after[key] == nil {
			removed = append(removed, key)
		}
	}
	for i := range now {
		key := name(&now[i])
		switch was := before[key]; {
		case was == nil:
			added = append(added, key)
		case !reflect.DeepEqual(*was, now[i]):
			changed = append(changed, key)
		}
	}
	return removed, added, changed
}

// entry returns the entry of a name, nil where there is none.
func entry[T any](list []T, wanted string, name func(*T) string) *T {
	for i := range list {
		if name(&list[i]) == wanted {
			return &list[i]
		}
	}
	return nil
}

// Reload implements [api.Backend].
func (b backend) Reload(context.Context) ([]string, error) { return b.engine.reload() }
