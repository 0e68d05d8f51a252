package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"hikyaku/egress/api"
	"hikyaku/egress/liveness"
)

// memoryFile has, in the state directory, which SIDs have ever answered probes and which are dead.
// An agent that starts beside a dead border would else trust BGP.
const memoryFile = "probes.json"

// remember takes what a former run has found out. The file is no more than a help: without it SIDs
// must answer once before their silence counts.
func (p *prober) remember() {
	path := filepath.Join(p.config.State.Dir, memoryFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var known liveness.Memory
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err != nil {
		p.log.Warn("reading which SIDs answered probes; that is found out again", "file", path, "error", err)
		return
	}
	known.Answering = slices.DeleteFunc(known.Answering, func(t liveness.Target) bool { return p.mtus[t.Border] == nil })
	p.memory = known
	p.monitor.Remember(known)
}

// noteMemory has the file follow the monitor.
func (p *prober) noteMemory() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.monitor.Memory()
	if reflect.DeepEqual(now, p.memory) {
		return
	}
	p.memory = now
	select {
	case <-p.kept: // the former one is not written yet
	default:
	}
	p.kept <- now
}

// keepMemory writes the file, apart from the prober, which must not wait for a disk. The function
// that it returns ends that, once all is written.
func (p *prober) keepMemory() (end func()) {
	p.kept = make(chan liveness.Memory, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for memory := range p.kept {
			if err := saveMemory(memory, p.config.State.Dir); err != nil {
				p.log.Error("a restart would forget which SIDs answer probes", "error", err)
			}
		}
	}()
	return func() { close(p.kept); <-ended }
}

func saveMemory(m liveness.Memory, dir string) error {
	text, err := json.Marshal(m)
	if err == nil {
		err = api.ReplaceFile(filepath.Join(dir, memoryFile), append(text, '\n'))
	}
	return err
}

// dead is why packets to a SID are known to be lost, nil where they are not.
func (p *prober) dead(sid netip.Addr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probing.Interval > 0 && p.noProbes == nil && p.monitor.View(sid).State == liveness.Dead {
		return errSilent(sid)
	}
	return nil
}

func errSilent(sid netip.Addr) error { return fmt.Errorf("its SID %s does not answer probes", sid) }
